// A receiver based on @octokit/webhooks. /github uses its middleware, which expects GitHub's header names. Other paths
// use `verifyAndReceive` with Workhook's header names. Prints its port, then a line of JSON for each verified event.
import { createServer } from "node:http";
import { Webhooks, createNodeMiddleware } from "@octokit/webhooks";

const webhooks = new Webhooks({ secret: process.env.SECRET, log: { debug() {}, info() {}, warn() {}, error() {} } });
webhooks.onAny(({ id, name, payload }) => console.log(JSON.stringify({ id, name, payload })));
const middleware = createNodeMiddleware(webhooks, { path: "/github" });

async function receive(request, response) {
  const parts = [];
  for await (const part of request) parts.push(part);
  const { headers } = request;
  try {
    await webhooks.verifyAndReceive({
      id: headers["x-service-delivery"],
      name: headers["x-service-event"],
      payload: Buffer.concat(parts).toString("utf8"),
      signature: headers["x-hub-signature-256"] ?? "",
    });
    response.writeHead(200).end("thanks");
  } catch {
    response.writeHead(400).end("no");
  }
}

const server = createServer((request, response) =>
  request.url === "/github" ? middleware(request, response) : receive(request, response),
);
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
