// Goes through pages in Firefox. Reads one line of JSON {program, environment, origin, cookies, addresses, widths, board, task,
// columns}
// and prints JSON {visited, trouble}: errors in the console, requests that failed or left the origin, and pages that are
// wider than the window. Then it does a few things as a person would; what does not come of them is an error.
import { createInterface } from "node:readline";
import puppeteer from "puppeteer-core";

const TIMEOUT_MS = 60_000;
const [line] = await readLines(1);
const given = JSON.parse(line);
const trouble = [];
let isLeaving = false; // for another page, which ends the requests of this one

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
process.exit(0); // whatever of Firefox is left would keep the process

function follow(page) {
  page.on("console", (message) => {
    if (["error", "warn"].includes(message.type())) trouble.push(`${page.url()}: console: ${message.text()}`);
  });
  page.on("pageerror", (error) => {
    // Firefox tells the page that is left of a refresh that it had asked for or was reading; the other browsers do not.
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

// A page has its styles, its scripts work, and it is no wider than the window, whichever width that has.
async function look(page, address) {
  await visit(page, address);
  // Whoever leaves before a script has come is told of that by the script.
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

// What a person does on a board: a card is moved with the keyboard and back, a new one is made, a task gets a comment.
async function act(page) {
  await page.setViewport({ width: 1440, height: 900 });
  await visit(page, given.board);
  await page.waitForFunction(() => document.querySelector(".cards")?.sortable);
  await page.keyboard.press("j");
  await page.waitForFunction(() => document.activeElement?.closest(".board-card"));
  await page.focus(`#${given.task} .card-title a`);
  await down(page, "Shift", "ArrowRight");
  await page.waitForFunction((task, column) => document.querySelector(`#${column} #${task}`), {}, given.task, given.columns[1]);
  // The card has moved before the server has answered; what undoes it comes with the answer.
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
