// Asks for the page anew, and exchanges what differs. While a task lies over the page (over.js), the browser's bar shows
// the task's address, and the page beneath is asked for at its own. Turbo's own refresh waits for a moment, in which a
// form may have been sent that it would give up.
import * as Turbo from "turbo"

export function refresh() {
  if (Turbo.session.navigator.currentVisit) return
  const beneath = document.querySelector("dialog.over[open]") && history.state?.over
  const options = { action: "replace", shouldCacheSnapshot: false, updateHistory: !beneath, refresh: {} }
  Turbo.visit(beneath || document.baseURI, options)
}
