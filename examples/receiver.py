"""A receiver in one file: checks the signature of each delivery and prints it.

SECRET=... python examples/receiver.py [PORT]
"""

import hashlib
import hmac
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = os.environ.get("SECRET", "").encode()


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        expected = "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest()
        genuine = hmac.compare_digest(expected, self.headers.get("X-Hub-Signature-256", ""))
        self.send_response(204 if genuine else 401)
        self.end_headers()
        if genuine:
            payload = json.loads(body)
            print(self.headers["X-Service-Event"], payload.get("action") or payload.get("ref") or "", flush=True)

    def log_message(self, *args: object) -> None:
        """Only deliveries are printed."""


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else "9000"
    if not SECRET:
        sys.exit("receiver: set SECRET to the webhook's secret: SECRET=… python examples/receiver.py")
    if not given.isdecimal() or int(given) > 65535:
        sys.exit(f"receiver: {given!r} is no port: give a number from 0 (any that is free) to 65535")
    try:
        server = HTTPServer(("127.0.0.1", int(given)), Receiver)
    except OSError as error:
        sys.exit(f"receiver: cannot listen on 127.0.0.1:{given}: {error.strerror}; choose another port")
    print(f"waiting on http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()
