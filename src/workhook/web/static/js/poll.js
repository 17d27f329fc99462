// Polls whether the visible page is out of date, at most once a second, and refreshes it if so. Polls less often while
// nothing changes.
import { Controller } from "stimulus"
import { isUnderWay } from "workhook/morphing"
import { refresh } from "workhook/refresh"
import { tellIfEnded } from "workhook/stale"

const SOONEST_MS = 1000
const LATEST_MS = 5000
const SLOWER = 1.2

export default class extends Controller {
  static values = { url: String, mark: String }

  connect() {
    this.asks = true
    this.wait = SOONEST_MS
    this.seen = () => { if (!document.hidden) this.soon() }
    document.addEventListener("visibilitychange", this.seen)
    this.plan()
  }

  disconnect() {
    this.asks = false // the element may remain on a page that no longer polls
    clearTimeout(this.timer)
    document.removeEventListener("visibilitychange", this.seen)
  }

  markValueChanged() {
    this.wait = SOONEST_MS
  }

  soon() {
    this.wait = SOONEST_MS
    this.plan()
  }

  plan() {
    clearTimeout(this.timer)
    if (!document.hidden) this.timer = setTimeout(() => this.ask(), this.wait)
  }

  async ask() {
    this.wait = Math.min(LATEST_MS, this.wait * SLOWER)
    try {
      const response = await fetch(this.urlValue, { headers: { Accept: "text/plain" } })
      // Signed out or deleted: polling further is pointless.
      if (!response.ok || response.redirected) return await tellIfEnded()
      const mark = await response.text()
      if (this.asks && mark !== this.markValue && !isUnderWay()) {
        refresh()
      }
    } catch (error) {
      if (!(error instanceof TypeError)) throw error // the server is temporarily unreachable
    }
    if (this.asks) this.plan()
  }
}
