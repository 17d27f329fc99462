// Reloads the page and morphs the differences. While a task is open over a board (over.js), the URL is the task's, so
// the board is requested at its own. Turbo's own refresh is debounced and would abort a form submitted in the meantime.
import * as Turbo from "turbo"

export function refresh() {
  if (Turbo.session.navigator.currentVisit) return
  const beneath = document.querySelector("dialog.over[open]") && history.state?.over
  const options = { action: "replace", shouldCacheSnapshot: false, updateHistory: !beneath, refresh: {} }
  Turbo.visit(beneath || document.baseURI, options)
}
