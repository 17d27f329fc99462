// Shows a moment in the reader's time zone and language.
import { Controller } from "stimulus"

const UNITS = [["year", 31536000], ["month", 2592000], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60]]
const AGAIN_MS = 30000

// The page's language with the reader's region, if the browser has one, for example for British dates.
const page = document.documentElement.lang
const LANGUAGE = navigator.languages.find((each) => each.split("-")[0] === page.split("-")[0]) ?? page

export default class extends Controller {
  static values = { style: { type: String, default: "relative" } }

  connect() {
    this.read()
    // A page refresh restores the server's text, which is in UTC.
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

  // A day without a time is parsed as midnight UTC.
  day() {
    return this.format({ ...this.short("UTC"), timeZone: "UTC" })
  }

  date() {
    return this.format(this.short())
  }

  minute() {
    return this.format({ ...this.short(), hour: "numeric", minute: "2-digit" })
  }

  moment() {
    return this.format({ dateStyle: "medium", timeStyle: "medium" })
  }

  // The year is shown only if it isn't the current one.
  short(timeZone) {
    const year = (at) => new Intl.DateTimeFormat("en", { year: "numeric", timeZone }).format(at)
    return { day: "numeric", month: "short", ...(year(this.at) === year(Date.now()) ? {} : { year: "numeric" }) }
  }

  format(options) {
    return new Intl.DateTimeFormat(LANGUAGE, options).format(this.at)
  }
}
