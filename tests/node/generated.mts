// A client generated from the OpenAPI document creates a webhook and a task, and reads both.
// Environment: BASE_URL, TOKEN, OWNER, REPO, COLUMN, RECEIVER.
import createClient from "openapi-fetch";
import type { paths } from "workhook-api";

declare const process: { env: Record<string, string> };
const { BASE_URL: baseUrl, TOKEN, OWNER: owner, REPO: repo, COLUMN: id, RECEIVER: receiver } = process.env;
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${TOKEN}` } });

function known<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

const hook = known(
  await client.POST("/repos/{owner}/{repo}/hooks", {
    params: { path: { owner, repo } },
    body: { config: { url: receiver, content_type: "json", insecure_ssl: "0" }, events: ["task", "push"] },
  }),
);
const at = { owner, repo, hook_id: hook.id };
await client.PATCH("/repos/{owner}/{repo}/hooks/{hook_id}", { params: { path: at }, body: { add_events: ["issues"] } });
const { events } = known(await client.GET("/repos/{owner}/{repo}/hooks/{hook_id}", { params: { path: at } }));
const { task } = known(
  await client.POST("/api/v1/columns/{id}/tasks", {
    params: { path: { id } },
    body: { title: "Launch", priority: "high" },
  }),
);
const title: string = task.title;
console.log(JSON.stringify({ hook: hook.id, content_type: hook.config.content_type, events, title, id: task.id }));
