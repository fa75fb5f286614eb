#!/usr/bin/python3
"""A user's own parameter server, for tests: listens on PADDLE_PORT until it is ended."""
import os
import socket

s = socket.create_server(("", int(os.environ["PADDLE_PORT"])))
print("serving", os.environ["PADDLE_CURRENT_ENDPOINT"], flush=True)
while True:
    s.accept()[0].close()
