// Octokit gets, refreshes, checks, exchanges and revokes user tokens. Fails at the first response that differs from
// GitHub's. Environment: BASE_URL, LOGIN, COOKIE (of a browser in which LOGIN is signed in), CLIENT_ID, CLIENT_SECRET
// and CODE of an OAuth app, APP_ID, APP_SECRET and APP_CODE of an app installed on ORGANIZATION, which has REPOSITORY.
import assert from "node:assert/strict";
import { createOAuthUserAuth } from "@octokit/auth-app";
import { scopeToken } from "@octokit/oauth-methods";
import { Octokit } from "@octokit/rest";

const { BASE_URL: baseUrl, LOGIN: login, COOKIE: cookie } = process.env;
const oauthApp = { clientId: process.env.CLIENT_ID, clientSecret: process.env.CLIENT_SECRET, clientType: "oauth-app" };
const app = { clientId: process.env.APP_ID, clientSecret: process.env.APP_SECRET, clientType: "github-app" };

// Octokit caches the result of `auth()` only. Without this call, each request would exchange the code again.
async function connect(auth) {
  const octokit = new Octokit({ baseUrl, authStrategy: createOAuthUserAuth, auth });
  await octokit.auth();
  return octokit;
}

async function whoIs(octokit) {
  return (await octokit.rest.users.getAuthenticated()).data.login;
}

async function page(path, fields) {
  const sent = fields && { method: "POST", body: new URLSearchParams(fields) };
  const response = await fetch(baseUrl + path, { headers: { cookie }, redirect: "manual", ...sent });
  assert.equal(response.status, 200);
  return await response.text();
}

function hidden(html, name) {
  return html.match(new RegExp(`name="${name}" value="([^"]*)"`))[1];
}

async function approve({ user_code, verification_uri }) {
  const path = new URL(verification_uri).pathname;
  const entry = await page(path);
  const asked = await page(path, { csrf: hidden(entry, "csrf"), user_code });
  const fields = { csrf: hidden(asked, "csrf"), asked: hidden(asked, "asked"), user_code, decision: "approve" };
  assert.match(await page(`${path}/decide`, fields), /now has access/);
}

async function withCode() {
  const octokit = await connect({ ...oauthApp, code: process.env.CODE });
  assert.equal(await whoIs(octokit), login);
  const first = await octokit.auth({ type: "get" });
  assert.deepEqual(first.scopes, ["repo"]);
  await octokit.auth({ type: "check" });
  const second = await octokit.auth({ type: "reset" });
  assert.notEqual(second.token, first.token);
  assert.equal(await whoIs(octokit), login);
  await octokit.auth({ type: "delete" });
  await assert.rejects(octokit.auth({ type: "check" }));
  await assert.rejects(connect({ ...oauthApp, code: process.env.CODE }), /bad_verification_code/);
}

async function withDevice() {
  const octokit = await connect({ ...oauthApp, onVerification: approve, scopes: ["work"] });
  assert.equal(await whoIs(octokit), login);
  await octokit.auth({ type: "deleteAuthorization" });
}

async function asApp() {
  const octokit = await connect({ ...app, code: process.env.APP_CODE });
  assert.equal(await whoIs(octokit), login);
  const first = await octokit.auth({ type: "get" });
  assert.match(first.refreshToken, /^whr_/);
  assert.ok(new Date(first.expiresAt) > Date.now() + 7 * 3600_000);
  const renewed = await octokit.auth({ type: "refresh" });
  assert.notEqual(renewed.token, first.token);
  assert.equal(await whoIs(octokit), login);
  await scopeDown(renewed.token);
}

async function scopeDown(token) {
  const { ORGANIZATION: target, REPOSITORY: repository } = process.env;
  const { request } = new Octokit({ baseUrl });
  const wanted = { target, repositories: [repository], permissions: { work: "read" } };
  const { data, authentication } = await scopeToken({ ...app, token, request, ...wanted });
  assert.equal(authentication.token, data.token);
  assert.equal(authentication.expiresAt, data.expires_at);
  assert.deepEqual(data.installation.permissions, wanted.permissions);
  const octokit = new Octokit({ baseUrl, auth: data.token });
  const reached = await octokit.rest.repos.listForAuthenticatedUser();
  assert.deepEqual(reached.data.map((each) => each.name), [repository]);
  const [{ id }] = reached.data;
  assert.equal((await octokit.request("GET /repositories/{id}", { id })).data.name, repository);
  await assert.rejects(octokit.rest.repos.listWebhooks({ owner: target, repo: repository }), /not accessible/);
  await assert.rejects(scopeToken({ ...app, token: data.token, request, ...wanted }), /not been scoped before/);
}

await withCode();
await withDevice();
await asApp();
console.log("done");
