// Tells the server the browser's time zone by a cookie, from the first page on, and asks once more for a page that was
// made before the server knew.
import { Controller } from "stimulus"
import * as Turbo from "turbo"

const NAME = "workhook_timezone"
const LASTS_S = 400 * 86400 // browsers keep none for longer
let isNews = false

const here = () => Intl.DateTimeFormat().resolvedOptions().timeZone

export function tellZone() {
  const zone = here()
  const secure = location.protocol === "https:"
  const pair = `${secure ? "__Host-" : ""}${NAME}=${zone}`
  const isTold = () => document.cookie.split("; ").includes(pair)
  if (!zone || isTold()) return
  document.cookie = `${pair}; Path=/; SameSite=Lax; Max-Age=${LASTS_S}${secure ? "; Secure" : ""}`
  isNews = isTold() // a browser may keep no cookies
}

export default class extends Controller {
  static values = { shown: String }

  connect() {
    tellZone() // a page that Turbo shows is here before its `turbo:load`
    if (!isNews || this.shownValue === here()) return
    isNews = false
    const refresh = () => Turbo.session.refresh(document.baseURI)
    if (!Turbo.session.navigator.currentVisit) refresh()
    else document.addEventListener("turbo:load", () => queueMicrotask(refresh), { once: true }) // then it has ended
  }
}
