// Tells the server the reader's time zone by a cookie, and asks once more for a page that was made for another one.
import { Controller } from "stimulus"
import * as Turbo from "turbo"

const NAME = "workhook_timezone"
const LASTS_S = 400 * 86400 // browsers keep none for longer

export default class extends Controller {
  static values = { shown: String }

  connect() {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone
    const secure = location.protocol === "https:"
    const pair = `${secure ? "__Host-" : ""}${NAME}=${zone}`
    if (!zone || zone === this.shownValue || document.cookie.split("; ").includes(pair)) return
    document.cookie = `${pair}; Path=/; SameSite=Lax; Max-Age=${LASTS_S}${secure ? "; Secure" : ""}`
    Turbo.session.refresh(document.baseURI)
  }
}
