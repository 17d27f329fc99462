// A Probot app that listens to all events. Prints its port, then a line of JSON for each event that Probot accepts.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createNodeMiddleware, createProbot } from "probot";

const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const pem = privateKey.export({ type: "pkcs8", format: "pem" });
const overrides = { appId: 1, privateKey: pem, secret: process.env.SECRET, logLevel: "fatal" };
const app = (probot) => {
  probot.onAny(({ id, name, payload }) => console.log(JSON.stringify({ id, name, payload })));
};
const middleware = await createNodeMiddleware(app, { probot: createProbot({ overrides, env: {} }), webhooksPath: "/" });
const server = createServer(async (request, response) => {
  if (!(await middleware(request, response))) response.writeHead(404).end();
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
