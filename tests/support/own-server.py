#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A user's own parameter server, for tests: listens on its endpoint until it gets a signal."""
import os
import socket

host, port = os.environ["PADDLE_CURRENT_ENDPOINT"].rsplit(":", 1)
s = socket.create_server((host, int(port)))
print("serving", os.environ["PADDLE_CURRENT_ENDPOINT"], flush=True)
while True:
    s.accept()[0].close()
