// Reads lines of JSON {secret, body (base64), signature} and prints true or false for each, as @octokit/webhooks-methods
// finds the signature.
import { createInterface } from "node:readline";
import { verify } from "@octokit/webhooks-methods";

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const { secret, body, signature } = JSON.parse(line);
  console.log(await verify(secret, Buffer.from(body, "base64").toString("utf8"), signature));
}
