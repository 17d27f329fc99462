// Octokit as an app and as its installation; @octokit/auth-app creates and renews the tokens. Fails at the first
// response that differs from GitHub's. Environment: BASE_URL, APP_ID, CLIENT_ID, PRIVATE_KEY, INSTALLATION_ID, OWNER,
// REPO, OTHER_OWNER, RECEIVER.
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { createAppAuth } from "@octokit/auth-app";
import { Octokit } from "@octokit/rest";

const { BASE_URL: baseUrl, PRIVATE_KEY: privateKey, OWNER: owner, REPO: repo, RECEIVER: receiver } = process.env;
const [appId, installationId] = [Number(process.env.APP_ID), Number(process.env.INSTALLATION_ID)];
const warnings = [];
const log = { debug() {}, info() {}, warn(text) { warnings.push(text); }, error() {} };

function connect(auth) {
  return new Octokit({ baseUrl, log, authStrategy: createAppAuth, auth: { appId, privateKey, log, ...auth } });
}

async function refusal(promise) {
  return await promise.then(
    () => assert.fail("it was not refused"),
    (error) => ({ status: error.status, message: error.response.data.message, errors: error.response.data.errors }),
  );
}

// Pending deliveries are dropped with their webhook, so both pings must be recorded before it is deleted.
async function delivered(api, one, count) {
  const end = Date.now() + 45_000;
  for (;;) {
    const { data } = await api.listWebhookDeliveries({ ...one, per_page: 100 });
    if (data.length >= count) return data;
    assert.ok(Date.now() < end, `${data.length} of ${count} deliveries in time`);
    await pause(20);
  }
}

async function asApp(octokit) {
  const { data: app } = await octokit.rest.apps.getAuthenticated();
  assert.deepEqual([app.id, app.client_id, app.owner.login], [appId, process.env.CLIENT_ID, owner]);
  assert.deepEqual(app.permissions, { organization_hooks: "write", repository_hooks: "write", work: "write" });
  const installations = await octokit.paginate(octokit.rest.apps.listInstallations, { per_page: 1 });
  assert.equal(installations.length, app.installations_count);
  assert.ok(installations.length > 1);
  const { data: installation } = await octokit.rest.apps.getInstallation({ installation_id: installationId });
  assert.deepEqual([installation.account.login, installation.target_type], [owner, "Organization"]);
  for (const found of [
    await octokit.rest.apps.getRepoInstallation({ owner, repo }),
    await octokit.rest.apps.getOrgInstallation({ org: owner }),
    await octokit.rest.apps.getUserInstallation({ username: owner }),
  ]) assert.deepEqual(found.data, installation);
  const missing = await refusal(octokit.rest.apps.getOrgInstallation({ org: "nobody" }));
  assert.deepEqual([missing.status, missing.message], [404, "Not Found"]);
}

async function tokens(octokit) {
  const whole = await octokit.auth({ type: "installation", installationId });
  assert.match(whole.token, /^whs_/);
  assert.deepEqual([whole.tokenType, whole.repositorySelection], ["installation", "all"]);
  assert.equal((await octokit.auth({ type: "installation", installationId })).token, whole.token); // from its cache
  const renewed = await octokit.auth({ type: "installation", installationId, refresh: true });
  assert.notEqual(renewed.token, whole.token);
  const permissions = { repository_hooks: "read" };
  const narrow = await octokit.auth({ type: "installation", installationId, repositoryNames: [repo], permissions });
  assert.deepEqual([narrow.permissions, narrow.repositoryNames], [permissions, [repo]]);
  assert.equal(narrow.repositorySelection, "selected");
  const repositoryIds = narrow.repositoryIds;
  const again = await octokit.auth({ type: "installation", installationId, repositoryIds, permissions });
  assert.deepEqual([again.repositoryIds, again.repositoryNames], [repositoryIds, [repo]]);
  const much = await refusal(octokit.auth({ type: "installation", installationId, permissions: { contents: "write" } }));
  assert.equal(much.status, 422);
  assert.equal(much.message, "The permissions requested are not granted to this installation.");
  const absent = await refusal(octokit.auth({ type: "installation", installationId, repositoryNames: ["absent"] }));
  assert.deepEqual([absent.status, absent.errors[0].field], [422, "repositories"]);
}

async function asInstallation() {
  const octokit = connect({ installationId });
  const repositories = await octokit.paginate(octokit.rest.apps.listReposAccessibleToInstallation, { per_page: 1 });
  assert.deepEqual(repositories.map((each) => each.name), [repo, "shop"]);
  for (const [api, at] of [[octokit.rest.repos, { owner, repo }], [octokit.rest.orgs, { org: owner }]]) {
    const config = { url: `${receiver}/${Object.keys(at)[0]}`, content_type: "json", secret: "s3cret" };
    const { data: hook } = await api.createWebhook({ ...at, name: "web", config, events: ["push"] });
    const one = { ...at, hook_id: hook.id };
    assert.deepEqual((await api.listWebhooks(at)).data.map((each) => each.id), [hook.id]);
    assert.deepEqual((await api.updateWebhook({ ...one, events: ["issues"] })).data.events, ["issues"]);
    assert.equal((await api.pingWebhook(one)).status, 204);
    const deliveries = await delivered(api, one, 2);
    assert.deepEqual(deliveries.map((each) => [each.event, each.status, each.installation_id]), [
      ["ping", "OK", installationId], ["ping", "OK", installationId],
    ]);
    assert.equal((await api.deleteWebhook(one)).status, 204);
  }
  const user = await refusal(octokit.rest.users.getAuthenticated());
  assert.deepEqual([user.status, user.message], [403, "Resource not accessible by integration"]);
  const other = await refusal(octokit.rest.repos.listWebhooks({ owner: process.env.OTHER_OWNER, repo }));
  assert.deepEqual([other.status, other.message], [404, "Not Found"]);
  assert.equal((await octokit.rest.apps.revokeInstallationAccessToken()).status, 204);
}

// On a machine with a wrong clock, the client notices it from the response's message and date, and retries.
async function withClock(offsetS) {
  const Right = globalThis.Date;
  globalThis.Date = class extends Right {
    constructor(...given) { given.length ? super(...given) : super(Right.now() + offsetS * 1000); }
    static now() { return Right.now() + offsetS * 1000; }
  };
  try {
    warnings.length = 0;
    assert.equal((await connect().rest.apps.getAuthenticated()).data.id, appId);
    assert.equal(warnings.length, 2);
    assert.match(warnings[1], /system time are different by -?\d+ seconds\. Retrying/);
  } finally {
    globalThis.Date = Right;
  }
}

await asApp(connect());
await asApp(connect({ appId: process.env.CLIENT_ID }));
await tokens(connect());
await asInstallation();
assert.deepEqual(warnings, []);
for (const offsetS of [-3600, 300, 3600]) await withClock(offsetS);
