// Shows a moment in the reader's zone and language.
import { Controller } from "stimulus"

const UNITS = [["year", 31536000], ["month", 2592000], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60]]
const AGAIN_MS = 30000

// The language of the page, with the reader's region where the browser has one for it: a British page has British dates.
const page = document.documentElement.lang
const LANGUAGE = navigator.languages.find((each) => each.split("-")[0] === page.split("-")[0]) ?? page

export default class extends Controller {
  static values = { style: { type: String, default: "relative" } }

  connect() {
    this.read()
    // A refresh of the page brings the text of the server again, in UTC.
    this.same = (event) => { if (event.target === this.element && this.isSame(event.detail.newElement)) event.preventDefault() }
    this.morphed = (event) => { if (event.target === this.element) this.read() }
    this.element.addEventListener("turbo:before-morph-element", this.same)
    this.element.addEventListener("turbo:morph-element", this.morphed)
    if (this.styleValue === "relative") this.timer = setInterval(() => this.show(), AGAIN_MS)
  }

  disconnect() {
    clearInterval(this.timer)
    this.element.removeEventListener("turbo:before-morph-element", this.same)
    this.element.removeEventListener("turbo:morph-element", this.morphed)
  }

  isSame(other) {
    return other?.dateTime === this.element.dateTime && other.dataset.whenStyleValue === this.element.dataset.whenStyleValue
  }

  read() {
    this.at = new Date(this.element.dateTime)
    if (this.styleValue !== "day") this.element.title = this.moment()
    this.show()
  }

  show() {
    const text = { day: () => this.day(), date: () => this.date(), minute: () => this.minute(), moment: () => this.moment() }[this.styleValue] ?? (() => this.relative())
    this.element.textContent = text()
  }

  relative() {
    const seconds = (this.at - Date.now()) / 1000
    const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1]
    return new Intl.RelativeTimeFormat(LANGUAGE, { numeric: "auto" }).format(Math.round(seconds / size), unit)
  }

  // A day without a time is read as its midnight in UTC.
  day() {
    return new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium", timeZone: "UTC" }).format(this.at)
  }

  date() {
    return new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium" }).format(this.at)
  }

  minute() {
    return new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium", timeStyle: "short" }).format(this.at)
  }

  moment() {
    return new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium", timeStyle: "medium" }).format(this.at)
  }
}
