// Refreshes the page when its project changes. Events in quick succession cause a single refresh.
import { Controller } from "stimulus"
import { isUnderWay } from "workhook/morphing"
import { refresh } from "workhook/refresh"
import { tellIfEnded } from "workhook/stale"

const GATHER_MS = 250
const AGAIN_MS = 5000

export default class extends Controller {
  static values = { url: String }

  connect() {
    this.sent = () => { if (this.timer) this.changed() } // the response is about to be rendered
    document.addEventListener("turbo:submit-end", this.sent)
    this.open()
  }

  disconnect() {
    document.removeEventListener("turbo:submit-end", this.sent)
    this.source?.close()
    clearTimeout(this.timer)
    clearTimeout(this.again)
  }

  open() {
    this.source = new EventSource(this.urlValue)
    this.source.addEventListener("changed", () => this.changed())
    this.source.addEventListener("error", () => {
      if (this.source.readyState !== EventSource.CLOSED) return
      this.again = setTimeout(() => this.open(), AGAIN_MS)
      tellIfEnded().catch(() => null) // the server can't be reached; the stream retries
    })
    this.source.addEventListener("open", () => {
      if (this.wasOpen) this.changed() // catches up on missed events
      this.wasOpen = true
      this.element.dataset.liveState = "open"
    })
  }

  changed() {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => this.refresh(), GATHER_MS)
  }

  refresh() {
    this.timer = undefined
    if (isUnderWay()) return this.changed()
    refresh()
  }
}
