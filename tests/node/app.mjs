// @octokit/app as a bot: its middleware receives the deliveries of its webhook, and the handler acts as the
// installation in the payload. Fails at the first response that differs from GitHub's. Environment: BASE_URL, APP_ID,
// CLIENT_ID, CLIENT_SECRET, PRIVATE_KEY, INSTALLATION_ID, OWNER, REPO.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { App, createNodeMiddleware } from "@octokit/app";
import { Octokit } from "@octokit/rest";

const { BASE_URL: baseUrl, PRIVATE_KEY: privateKey, OWNER: owner, REPO: repo } = process.env;
const installationId = Number(process.env.INSTALLATION_ID);
const secret = "It's a Secret to Everybody";
const log = { debug() {}, info() {}, warn() {}, error() {} };
const app = new App({
  appId: Number(process.env.APP_ID),
  privateKey,
  webhooks: { secret },
  oauth: { clientId: process.env.CLIENT_ID, clientSecret: process.env.CLIENT_SECRET },
  Octokit: Octokit.defaults({ baseUrl }),
  log,
});

const handled = new Promise((resolve, reject) => {
  app.webhooks.on("issues.opened", async ({ octokit, payload }) => {
    const { data: hooks } = await octokit.rest.repos.listWebhooks({ owner, repo });
    resolve({ installation: payload.installation.id, hooks: hooks.map((each) => each.id) });
  });
  app.webhooks.onError(reject);
});
const server = createServer(createNodeMiddleware(app, { log })).listen(0, "127.0.0.1");
await once(server, "listening");

const found = [];
await app.eachRepository(({ repository }) => void found.push(repository.full_name));
assert.deepEqual(found, [`${owner}/${repo}`]);
assert.match(await app.getInstallationUrl(), /\/apps\/[^/]+\/installations\/new$/);

const octokit = await app.getInstallationOctokit(installationId);
const url = `http://127.0.0.1:${server.address().port}/api/github/webhooks`;
const config = { url, content_type: "json", secret, header_style: "github" };
const { data: hook } = await octokit.rest.repos.createWebhook({ owner, repo, config, events: ["issues"] });
const payload = { issue: { number: 1 } };
const event = { event: "issues", action: "opened", payload };
assert.equal((await octokit.request("POST /repos/{owner}/{repo}/events", { owner, repo, ...event })).status, 202);
assert.deepEqual(await handled, { installation: installationId, hooks: [hook.id] });

const asUser = new Octokit({ baseUrl, auth: process.env.TOKEN });
assert.equal((await asUser.rest.users.listEmailsForAuthenticatedUser()).data[0].verified, true);
assert.deepEqual((await asUser.paginate("GET /user/orgs", { per_page: 1 })).map((each) => each.login), [owner]);
assert.deepEqual((await asUser.paginate("GET /user/repos", { per_page: 1 })).map((each) => each.name), [repo]);
const { data: user } = await asUser.rest.users.getAuthenticated();
assert.deepEqual(await asUser.graphql("query { viewer { login databaseId } }"), {
  viewer: { login: user.login, databaseId: user.id },
});
await assert.rejects(asUser.graphql("query { repository { id } }"), /This server has no GraphQL API/);
assert.equal((await asUser.rest.orgs.checkMembershipForUser({ org: owner, username: user.login })).status, 204);
server.close();
server.closeAllConnections();
