// The message that the session has ended. Typed text stays on the page: after signing in again in another tab, the user
// returns and submits it. The forms get the new session's key if it belongs to the same person.
import { Controller } from "stimulus"
import { anotherKey } from "workhook/formkey"
import { tell } from "workhook/messages"

// Fetches the current page, or returns null when signed out.
async function pageNow() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual" })
  return answer.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null
}

const personOf = (page) => page.querySelector("meta[name=person]")?.content
const keyOf = (page) => page.querySelector("input[name=csrf]")?.value

export default class extends Controller {
  static targets = ["ended", "again"]

  connect() {
    this.look = () => this.check()
    window.addEventListener("focus", this.look)
    this.check()
  }

  disconnect() {
    window.removeEventListener("focus", this.look)
  }

  async check() {
    const page = await pageNow().catch(() => null)
    if (!page || !keyOf(page) || personOf(page) !== personOf(document)) return
    for (const each of document.querySelectorAll("input[name=csrf]")) each.value = anotherKey(keyOf(page))
    for (const each of this.endedTargets) each.hidden = true
    for (const each of this.againTargets) each.hidden = false
  }
}

// Shows the message if the session of a live page has ended.
export async function tellIfEnded() {
  if (!(await pageNow())) tell("ended")
}
