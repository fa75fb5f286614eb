#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A terminal for tests: runs a command on a pty, and keeps the contents of its screen.

    s = Screen(["paddlectl", "run"], cols=80, rows=24)
    s.until(lambda: "41 %" in s.last())      # reads output until the condition holds
    s.resize(60, 24)                         # longer lines wrap, as in most terminals
    s.proc.send_signal(signal.SIGINT); s.wait()

`lines` holds everything that was on the screen, including lines that have scrolled out; colours are
dropped. An unknown escape sequence is an error, because paddlectl should use only a few simple
ones.
"""
import atexit
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unicodedata

SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class Screen:
    def __init__(self, command, cols=80, rows=24, env=None):
        self.cols, self.rows = cols, rows
        self.lines, self.x, self.y = [""], 0, 0
        self.top = 0  # the line in the first row
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        self.text, self.draws, self.raw = "", 0, b""
        self.frames = []  # output that was read and is not on the screen yet, cut before each erasure
        self.master, slave = pty.openpty()
        self.tty = os.ttyname(slave)
        self.size()
        self.proc = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                     preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                                     env={**os.environ, "TERM": "xterm", **(env or {})})
        os.close(slave)
        atexit.register(self.end)
        self.open = True

    def end(self):
        """A failed test must leave no process: the terminal hangs up, and a process that ignores it
        is killed."""
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGHUP)
            try:
                self.proc.wait(10)
            except subprocess.TimeoutExpired:
                self.proc.kill()

    def size(self):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, self.cols, 0, 0))

    def resize(self, cols, rows):
        """Long lines wrap, and the cursor stays with its text."""
        lines, y = [], 0
        for i, line in enumerate(self.lines):
            parts = [line[k:k + cols] for k in range(0, len(line), cols)] or [""]
            if i == self.y:
                y = len(lines) + min(self.x // cols, len(parts) - 1)
                x = self.x - cols * min(self.x // cols, len(parts) - 1)
            lines += parts
        self.lines, self.x, self.y, self.cols, self.rows = lines, x, y, cols, rows
        self.top = max(len(lines) - rows, 0)
        self.size()

    def put(self, c):
        """A wide character takes two cells, the second is empty (\\0); an accent joins its letter."""
        if unicodedata.combining(c):
            return
        wide = unicodedata.east_asian_width(c) in "WF"
        if self.x + wide >= self.cols:
            self.newline()
            self.x = 0
        line = self.lines[self.y].ljust(self.x)
        self.lines[self.y] = line[:self.x] + c + "\0" * wide + line[self.x + 1 + wide:]
        self.x += 1 + wide

    def newline(self):
        self.y += 1
        if self.y == len(self.lines):
            self.lines.append("")
        self.top = max(self.top, self.y - self.rows + 1)

    def sequence(self, private, numbers, letter):
        n = int(numbers) if numbers.isdigit() else 1
        if letter == "m" and not private:
            return
        if letter == "H" and not private and numbers == "":
            self.y, self.x = self.top, 0
        elif letter == "A" and not private:
            assert n < self.rows, "up by %d of %d lines" % (n, self.rows)
            self.y = max(self.y - n, self.top)
        elif letter in "JK" and not private and numbers in ("", "0"):
            self.lines[self.y] = self.lines[self.y][:self.x]
            if letter == "J":
                del self.lines[self.y + 1:]
                self.draws += 1
        else:
            raise AssertionError("an escape sequence %s%s%s" % (private, numbers, letter))

    def feed(self, data):
        self.raw += data
        self.text += self.decoder.decode(data)
        while self.text:
            c = self.text[0]
            if c == "\x1b":
                m = SEQUENCE.match(self.text)
                if not m:
                    assert len(self.text) < 20, "an escape sequence %r" % self.text[:20]
                    return
                self.sequence(*m.groups())
                self.text = self.text[m.end():]
                continue
            self.text = self.text[1:]
            if c == "\n":
                self.newline()
            elif c == "\r":
                self.x = 0
            elif c == "\t":
                self.x = min((self.x // 8 + 1) * 8, self.cols - 1)
            else:
                assert c >= " " and c != "\x7f", "a control character %r" % c
                self.put(c)

    def read(self, seconds):
        """Puts output on the screen up to the next erasure, so that the caller sees each state of a
        live block, also if several come at once. Waits at most `seconds`. False at the end."""
        if not self.frames and self.open and select.select([self.master], [], [], seconds)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                data = b""
            self.open = bool(data)
            self.frames = re.split(rb"(?=\x1b\[J)", data) if data else []
        if self.frames:
            self.feed(self.frames.pop(0))
        return self.open or bool(self.frames)

    def until(self, condition, what, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "waited too long: %s\n%s" % (what, self)
            if not self.read(0.1):
                assert condition(), "it ended: %s\n%s" % (what, self)

    def type(self, text):
        os.write(self.master, text.encode())

    def untaken(self):
        """The number of typed characters that the command has not read yet."""
        fd, n = os.open(self.tty, os.O_RDWR | os.O_NOCTTY), bytearray(4)
        fcntl.ioctl(fd, termios.FIONREAD, n)
        os.close(fd)
        return struct.unpack("i", n)[0]

    def modes(self):
        """The flags of the terminal that `stty -a` calls icanon and echo, and those of a key each."""
        flags = termios.tcgetattr(self.master)[3]
        return bool(flags & termios.ICANON), bool(flags & termios.ECHO), bool(flags & termios.ISIG)

    def wait(self, seconds=60):
        """Reads all output and returns the exit status."""
        end = time.monotonic() + seconds
        while self.read(0.1):
            assert time.monotonic() < end, "it does not end\n%s" % self
        return self.proc.wait(seconds)

    def shown(self):
        """The current lines of the screen, without empty lines at the end."""
        lines = [line.rstrip() for line in self.lines[self.top:]]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def __str__(self):
        return "\n".join("    | " + line for line in self.lines[-40:])
