// Reads lines of JSON {secret, body (base64), headers} and prints for each whether the Standard Webhooks library accepts
// the signature: true or false.
import { createInterface } from "node:readline";
import { Webhook } from "standardwebhooks";

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const { secret, body, headers } = JSON.parse(line);
  try {
    new Webhook(secret).verify(Buffer.from(body, "base64").toString("utf8"), headers);
    console.log(true);
  } catch {
    console.log(false);
  }
}
