// Octokit's REST client performs the usual steps of scripts that manage webhooks, for a repository and an organization.
// Fails at the first response that differs from GitHub's. Environment: BASE_URL, TOKEN, OWNER, REPO, RECEIVER.
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { Octokit } from "@octokit/rest";

const { BASE_URL: baseUrl, TOKEN: auth, OWNER: owner, REPO: repo, RECEIVER: receiver } = process.env;
const log = { debug() {}, info() {}, warn(text) { throw new Error(text); }, error() {} };
const octokit = new Octokit({ baseUrl, auth, log });

async function until(probe) {
  const end = Date.now() + 45_000;
  for (;;) {
    const found = await probe();
    if (found) return found;
    assert.ok(Date.now() < end, `not in time: ${probe}`);
    await pause(20);
  }
}

async function refusal(promise) {
  return await promise.then(
    () => assert.fail("it was not refused"),
    (error) => ({ status: error.status, ...error.response.data }),
  );
}

const places = {
  repository: {
    api: octokit.rest.repos,
    at: { owner, repo },
    root: `${baseUrl}/repos/${owner}/${repo}`,
    updateConfig: "updateWebhookConfigForRepo",
    getConfig: "getWebhookConfigForRepo",
  },
  organization: {
    api: octokit.rest.orgs,
    at: { org: owner },
    root: `${baseUrl}/orgs/${owner}`,
    updateConfig: "updateWebhookConfigForOrg",
    getConfig: "getWebhookConfigForOrg",
  },
};

async function manage(kind) {
  const { api, at, root, updateConfig, getConfig } = places[kind];
  const config = { url: `${receiver}/${kind}`, content_type: "json", secret: "s3cret" };
  const created = await api.createWebhook({ ...at, name: "web", config, events: ["push", "issues"], active: true });
  assert.equal(created.status, 201);
  const hook_id = created.data.id;
  assert.equal(created.headers.location, `${root}/hooks/${hook_id}`);
  assert.deepEqual(created.data.config, {
    url: config.url, content_type: "json", insecure_ssl: "0", secret: "********",
  });

  const got = await api.getWebhook({ ...at, hook_id });
  assert.deepEqual([got.status, got.data.id, got.data.events], [200, hook_id, ["push", "issues"]]);
  assert.equal(got.data.deliveries_url, `${root}/hooks/${hook_id}/deliveries`);

  const changes = { events: ["issues"], active: true };
  if (kind === "repository") Object.assign(changes, { events: undefined, add_events: ["fork"], remove_events: ["push"] });
  const updated = await api.updateWebhook({ ...at, hook_id, ...changes });
  assert.equal(updated.status, 200);
  assert.deepEqual(updated.data.events, kind === "repository" ? ["issues", "fork"] : ["issues"]);
  assert.equal(updated.data.config.secret, "********", "the configuration was not mentioned, so it stays");

  const configured = await api[updateConfig]({ ...at, hook_id, insecure_ssl: "1" });
  assert.deepEqual(configured.data, { ...created.data.config, insecure_ssl: "1" });
  assert.deepEqual((await api[getConfig]({ ...at, hook_id })).data, configured.data);

  assert.equal((await api.pingWebhook({ ...at, hook_id })).status, 204);
  if (kind === "repository") assert.equal((await api.testPushWebhook({ ...at, hook_id })).status, 204);

  const listed = async () => (await api.listWebhookDeliveries({ ...at, hook_id, per_page: 100 })).data;
  const deliveries = await until(async () => (await listed()).length === 2 && listed());
  assert.deepEqual(deliveries.map((each) => [each.event, each.status, each.redelivery]), [
    ["ping", "OK", false], ["ping", "OK", false],
  ]);
  const delivery_id = deliveries[1].id;
  const detail = await api.getWebhookDelivery({ ...at, hook_id, delivery_id });
  assert.equal(detail.data.request.payload.hook_id, hook_id);
  assert.equal(detail.data.guid, deliveries[1].guid);

  const again = await api.redeliverWebhookDelivery({ ...at, hook_id, delivery_id });
  assert.deepEqual([again.status, again.data], [202, {}]);
  const newest = (await until(async () => (await listed()).length === 3 && listed()))[0];
  assert.deepEqual([newest.guid, newest.redelivery], [deliveries[1].guid, true]);

  const ids = (await listed()).map((each) => each.id);
  const paged = await octokit.paginate(api.listWebhookDeliveries, { ...at, hook_id, per_page: 1 });
  assert.deepEqual(paged.map((each) => each.id), ids);

  const { headers } = await api.getWebhook({ ...at, hook_id });
  const same = await refusal(api.getWebhook({ ...at, hook_id, headers: { "if-none-match": headers.etag } }));
  assert.equal(same.status, 304);

  await errors(kind, hook_id, config);
  for (let number = 0; number < 4; number++) {
    await api.createWebhook({ ...at, name: "web", config: { url: `${receiver}/${number}` }, active: false });
  }
  const hooks = await octokit.paginate(api.listWebhooks, { ...at, per_page: 2 });
  assert.equal(hooks.length, 5);
  for (const hook of hooks) assert.equal((await api.deleteWebhook({ ...at, hook_id: hook.id })).status, 204);
  assert.deepEqual((await api.listWebhooks(at)).data, []);
}

async function errors(kind, hook_id, config) {
  const { api, at } = places[kind];
  const url = `${receiver}/other`;
  const custom = (message, field) => [{ resource: "Hook", ...(field && { field }), code: "custom", message }];
  const create = (more) => refusal(api.createWebhook({ ...at, name: "web", config: { url }, ...more }));
  const missing = await refusal(api.getWebhook({ ...at, hook_id: hook_id + 1000 }));
  assert.deepEqual([missing.status, missing.message], ["404", "Not Found"]);
  const unknown = await create({ events: ["xxx"] });
  assert.equal(unknown.message, "Validation Failed");
  assert.deepEqual(unknown.errors, custom(
    'Unknown event "xxx". List events with GET /webhook-events; publish your own with POST …/dispatches.',
  ));
  assert.deepEqual((await create({ config: {} })).errors, custom("url cannot be blank", "url"));
  const { data } = await api.getWebhook({ ...at, hook_id });
  const duplicate = await create({ config, events: data.events });
  assert.deepEqual(duplicate.errors, custom(`Hook already exists on this ${kind}`));
  const anonymous = new Octokit({ baseUrl, auth: "whp_nothing", log });
  const rejected = await refusal(anonymous.rest.repos.listWebhooks({ owner, repo }));
  assert.deepEqual([rejected.status, rejected.message], ["401", "Bad credentials"]);
}

assert.equal((await octokit.rest.users.getAuthenticated()).data.type, "User");
assert.equal((await octokit.rest.repos.get({ owner, repo })).data.full_name, `${owner}/${repo}`);
assert.equal((await octokit.rest.orgs.get({ org: owner })).data.login, owner);
assert.ok((await octokit.rest.rateLimit.get()).data.resources.core.remaining > 0);
assert.equal((await octokit.rest.meta.getZen()).status, 200);
for (const kind of Object.keys(places)) await manage(kind);

const event_type = "deploy";
assert.equal((await octokit.rest.repos.createDispatchEvent({ owner, repo, event_type })).status, 204);
