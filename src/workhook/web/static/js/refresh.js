// Asks for the page anew, and exchanges what differs. While a task lies over the page (over.js), the browser's bar shows
// the task's address, and the page beneath is asked for at its own.
import * as Turbo from "turbo"

export function refresh() {
  const beneath = document.querySelector("dialog.over[open]") && history.state?.over
  if (!beneath) return Turbo.session.refresh(document.baseURI)
  if (Turbo.session.navigator.currentVisit) return
  Turbo.visit(beneath, { action: "replace", updateHistory: false, shouldCacheSnapshot: false, refresh: {} })
}
