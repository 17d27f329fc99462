// Stores the browser's time zone in a cookie, and reloads a page that was rendered before the server knew it.
import { Controller } from "stimulus"
import * as Turbo from "turbo"

const NAME = "workhook_timezone"
const LASTS_S = 400 * 86400 // the maximum in browsers
let isNews = false

const here = () => Intl.DateTimeFormat().resolvedOptions().timeZone

export function tellZone() {
  const zone = here()
  const secure = location.protocol === "https:"
  const pair = `${secure ? "__Host-" : ""}${NAME}=${zone}`
  const isTold = () => document.cookie.split("; ").includes(pair)
  if (!zone || isTold()) return
  document.cookie = `${pair}; Path=/; SameSite=Lax; Max-Age=${LASTS_S}${secure ? "; Secure" : ""}`
  isNews = isTold() // cookies may be disabled
}

export default class extends Controller {
  static values = { shown: String }

  connect() {
    tellZone() // this runs before Turbo's `turbo:load`
    if (!isNews || this.shownValue === here()) return
    isNews = false
    const refresh = () => Turbo.session.refresh(document.baseURI)
    if (!Turbo.session.navigator.currentVisit) refresh()
    else document.addEventListener("turbo:load", () => queueMicrotask(refresh), { once: true }) // after the visit has ended
  }
}
