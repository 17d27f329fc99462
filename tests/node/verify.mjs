// Reads lines of JSON {secret, body (base64), signature} and prints for each whether @octokit/webhooks-methods accepts
// the signature: true or false.
import { createInterface } from "node:readline";
import { verify } from "@octokit/webhooks-methods";

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const { secret, body, signature } = JSON.parse(line);
  console.log(await verify(secret, Buffer.from(body, "base64").toString("utf8"), signature));
}
