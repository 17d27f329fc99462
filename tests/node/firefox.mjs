// Visits pages in Firefox. Reads one line of JSON {program, environment, origin, cookies, addresses, widths, board,
// task, columns} and prints JSON {visited, trouble}: errors in the console, requests that failed or left the origin,
// and pages wider than the window. Then it performs a few actions of a user and fails unless they have their effect.
import { createInterface } from "node:readline";
import puppeteer from "puppeteer-core";

const TIMEOUT_MS = 60_000;
const [line] = await readLines(1);
const given = JSON.parse(line);
const trouble = [];
let isLeaving = false; // while navigating, which aborts the requests of the current page

const browser = await puppeteer.launch({
  browser: "firefox",
  executablePath: given.program,
  env: { ...process.env, ...given.environment },
  headless: true,
  protocolTimeout: TIMEOUT_MS,
});
let visited = 0;
try {
  await browser.setCookie(...given.cookies);
  const page = await browser.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  follow(page);
  for (const address of given.addresses) {
    await look(page, address);
    visited += 1;
  }
  await act(page);
} finally {
  await browser.close();
}
console.log(JSON.stringify({ visited, trouble }));
process.exit(0); // remains of Firefox would keep the process alive

function follow(page) {
  page.on("console", (message) => {
    if (["error", "warn"].includes(message.type())) trouble.push(`${page.url()}: console: ${message.text()}`);
  });
  page.on("pageerror", (error) => {
    // Unlike other browsers, Firefox reports a pending refresh to the page that is being left.
    if (isLeaving && /NetworkError when attempting to fetch resource|^AbortError: /.test(error.message)) return;
    trouble.push(`${page.url()}: error of a script: ${error.message}`);
  });
  page.on("request", (request) => {
    const url = request.url();
    if (url.startsWith("http") && !url.startsWith(`${given.origin}/`)) trouble.push(`request that leaves: ${url}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 400) trouble.push(`${response.status()}: ${response.url()}`);
  });
}

async function visit(page, address) {
  isLeaving = true;
  await page.goto(given.origin + address, { waitUntil: "load" });
  isLeaving = false;
}

// Check that a page has its styles, that its scripts work, and that it is no wider than the window at any width.
async function look(page, address) {
  await visit(page, address);
  // A script that is still loading when the page is left reports an error.
  await page.evaluate(async () => {
    const named = document.querySelector("meta[name=controllers]")?.content.split(" ") ?? [];
    await Promise.all(named.filter(Boolean).map((each) => import(`workhook/${each}`)));
  });
  await page.waitForFunction(() => [...document.querySelectorAll(".cards")].every((each) => each.sortable));
  for (const width of given.widths) {
    await page.setViewport({ width, height: 900 });
    const found = await page.evaluate(() => ({
      needed: document.documentElement.scrollWidth,
      main: document.querySelector("main")?.getBoundingClientRect().height ?? 0,
      styled: getComputedStyle(document.body).fontFamily,
    }));
    if (found.needed > width) trouble.push(`${address} is ${found.needed} px wide in a window of ${width}`);
    if (found.main < 40) trouble.push(`${address} shows nothing`);
    if (/^serif$|Times/.test(found.styled)) trouble.push(`${address} has no styles`);
  }
}

async function readLines(count) {
  const lines = [];
  for await (const each of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    lines.push(each);
    if (lines.length === count) break;
  }
  return lines;
}

// Use a board: move a card with the keyboard, undo that, add a card, and comment on a task.
async function act(page) {
  await page.setViewport({ width: 1440, height: 900 });
  await visit(page, given.board);
  await page.waitForFunction(() => document.querySelector(".cards")?.sortable);
  await page.keyboard.press("j");
  await page.waitForFunction(() => document.activeElement?.closest(".board-card"));
  await page.focus(`#${given.task} .card-title a`);
  await down(page, "Shift", "ArrowRight");
  await page.waitForFunction((task, column) => document.querySelector(`#${column} #${task}`), {}, given.task, given.columns[1]);
  // The card moves before the server answers; the undo button arrives with the response.
  await page.waitForFunction(() => document.querySelector("#toasts [data-hotkey=u]"));
  await page.keyboard.press("u");
  await page.waitForFunction((task, column) => document.querySelector(`#${column} #${task}`), {}, given.task, given.columns[0]);
  await page.type(`#${given.columns[1]} .add-card input[name=title]`, "Made in Firefox");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => [...document.querySelectorAll(".card-title")].some((each) => each.textContent.includes("Made in Firefox")));
  await visit(page, `${given.board}/tasks/${given.task}`);
  await page.type("#text", "Written in Firefox");
  await page.evaluate(() => document.querySelector("#text").form.requestSubmit());
  await page.waitForFunction(() => document.querySelector("main").textContent.includes("Written in Firefox"));
}

async function down(page, modifier, key) {
  await page.keyboard.down(modifier);
  await page.keyboard.press(key);
  await page.keyboard.up(modifier);
}
