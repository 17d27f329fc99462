// A message that the session has ended. What was typed is still in the page: whoever signs in again, in another tab,
// comes back and sends it. The forms get the key of the new session, if the same person has it.
import { Controller } from "stimulus"
import { anotherKey } from "workhook/formkey"
import { tell } from "workhook/messages"

// The page of this address as it is now, or null where nobody is signed in.
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

// For a page that follows what happens, and is not told any more.
export async function tellIfEnded() {
  if (!(await pageNow())) tell("ended")
}
