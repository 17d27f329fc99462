// Opens a task in a dialog over its board, at the URL of the task. Going back closes it. Turbo isn't told about the new
// URL, so it keeps the board.
import { Controller } from "stimulus"
import * as Turbo from "turbo"
import { isChanged } from "workhook/morphing"
import { refresh } from "workhook/refresh"

const INTERACTIVE = "a, button, input, label, select, textarea, summary"

export default class extends Controller {
  static targets = ["frame", "body", "new", "failed"]
  static values = { base: String, leave: String }

  connect() {
    this.element.listens = true
  }

  // --- opening ---

  // A click anywhere on a card, unless a modifier key opens it in a new tab or window.
  follow(event) {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    const link = linkOf(event.target)
    if (!link) return
    event.preventDefault()
    this.open(link)
  }

  // A shortcut on a card opens a part of its task.
  choose(event) {
    event.preventDefault()
    this.open(event.detail.link, event.detail.part)
  }

  open(link, part = "") {
    const restorationIdentifier = `over ${Date.now()}` // for Turbo, when the user returns from another page
    const restorationIndex = (history.state?.turbo?.restorationIndex ?? 0) + 1
    history.pushState({ turbo: { restorationIdentifier, restorationIndex }, over: location.href }, "", link.href)
    this.show(part)
  }

  // The task of the current URL.
  show(part = "") {
    this.part = part
    this.beneath = history.state.over
    this.pageTitle = document.title
    this.failedTarget.hidden = true
    this.bodyTarget.append(this.newTarget.content.cloneNode(true))
    this.frameTarget.querySelector("h1").textContent = this.card?.textContent ?? ""
    this.frameTarget.src = location.href
    if (!this.element.open) this.element.showModal()
    this.bodyTarget.scrollTop = 0
    this.bodyTarget.focus()
    this.retitle()
  }

  // --- the frame's content ---

  // The same task is morphed, which preserves typed text and open forms. Another task replaces it.
  render(event) {
    if (!this.isOurs(event)) return
    const [here, there] = [this.frameTarget, event.detail.newFrame].map((each) => each.querySelector("#task")?.dataset.address)
    if (here === there) event.detail.render = Turbo.morphTurboFrameElements
  }

  loaded(event) {
    if (!this.isOurs(event)) return
    this.failedTarget.hidden = true
    const address = new URL(this.frameTarget.src)
    if (address.pathname !== location.pathname) history.replaceState(history.state, "", address.pathname) // a duplicated task
    this.retitle()
    const part = this.part && this.element.querySelector(this.part)
    this.part = ""
    if (!part) return
    if (part.matches("details")) part.open = true
    else part.querySelector("input:not([type=hidden]), select, textarea")?.focus()
  }

  // A saved form within the task, which the card beneath must reflect.
  sent(event) {
    const { success, formSubmission, fetchResponse } = event.detail
    if (formSubmission.isSafe || formSubmission.submitter?.matches("[data-turbo-frame]")) return
    const isElsewhere = fetchResponse?.location.pathname === this.baseValue // deleted, see `missing`
    if (success && !isElsewhere) refresh()
    else if (fetchResponse?.statusCode === 409) event.target.reset() // the response shows both versions
  }

  // A form that leads away from the task asks first if there is other unsaved text.
  send(event) {
    if (event.target.matches("[data-leaves]") && !this.mayLeave()) {
      event.preventDefault()
      event.stopImmediatePropagation()
    }
  }

  // The response is another page: the board after a deletion, the sign-in page, or an error.
  async missing(event) {
    if (!this.isOurs(event)) return
    event.preventDefault()
    const { response } = event.detail
    if (!response.ok) {
      this.failedTarget.hidden = false
    } else if (new URL(response.url).pathname === this.baseValue) {
      const page = new DOMParser().parseFromString(await response.text(), "text/html")
      document.getElementById("toasts").append(...page.querySelectorAll("#toasts > .toast"))
      this.isOutOfDate = true
      this.leave()
    } else {
      this.isSure = true
      Turbo.visit(response.url)
    }
  }

  // A link within the task: to an anchor, to more of it, or to another page.
  click(event) {
    const link = event.target.closest?.("a[href]")
    if (!link || link.dataset.turboFrame || link.closest("turbo-frame") !== this.frameTarget) return
    if (link.pathname !== location.pathname) link.dataset.turboFrame = "_top"
    else if (link.search === location.search && link.hash && !(event.metaKey || event.ctrlKey || event.shiftKey)) {
      event.preventDefault()
      document.getElementById(decodeURIComponent(link.hash.slice(1)))?.scrollIntoView()
    }
  }

  // --- closing ---

  escape(event) {
    if (event.key !== "Escape" || event.defaultPrevented) return
    event.preventDefault()
    this.close()
  }

  cancel(event) {
    if (event.target !== this.element) return
    event.preventDefault()
    this.close()
  }

  // A click that began and ended outside of the task, so selecting text doesn't close it.
  began(event) {
    this.beganBeside = event.target === this.element
  }

  beside(event) {
    if (event.target === this.element && this.beganBeside) this.close()
  }

  close() {
    if (this.mayLeave()) this.leave()
  }

  leave() {
    this.isSure = true
    history.back()
  }

  // The browser closed the dialog by itself. The event comes later, when another task may already be open.
  closed(event) {
    if (event.target === this.element && this.isShown && !this.element.open) this.leave()
  }

  pop(event) {
    const over = event.detail.state?.over
    if (over && new URL(over).pathname === this.baseValue) {
      event.preventDefault()
      if (!this.isShown) this.show()
    } else if (this.isShown && location.pathname === this.baseValue) {
      event.preventDefault()
      if (this.mayLeave()) this.shut()
      else history.forward()
    }
  }

  shut() {
    const address = new URL(this.frameTarget.src).pathname
    this.clear()
    const card = this.cardOf(address)
    if (card) card.focus()
    else document.getElementById("main").focus({ preventScroll: true }) // deleted, or no longer matches the filters
    if (this.isOutOfDate) refresh()
    this.isOutOfDate = false
  }

  clear() {
    if (!this.isShown) return
    this.isSure = false
    document.title = this.pageTitle
    this.frameTarget.remove()
    this.element.close()
  }

  // --- leaving for another page ---

  // The board beneath is refreshed when others change it, even before `pop` has gone forward.
  visit(event) {
    if (this.isShown && event.detail.url !== this.beneath && !this.mayLeave()) event.preventDefault()
  }

  unload(event) {
    if (this.isShown && !this.isSure && this.isTyped) event.preventDefault()
  }

  mayLeave() {
    return this.isSure || !this.isTyped || confirm(this.leaveValue)
  }

  get isTyped() {
    return [...this.element.querySelectorAll("form")].some(isChanged)
  }

  get isShown() {
    return this.hasFrameTarget
  }

  // Ignores frames within the task.
  isOurs(event) {
    return this.isShown && event.target === this.frameTarget
  }

  // --- names ---

  // A refresh of the board sets the board's title.
  retitle() {
    if (!this.isShown) return
    const title = this.element.querySelector("#task-title")?.textContent
    if (!title) return
    const end = document.title.slice(document.title.lastIndexOf(" · "))
    document.title = title + end
  }

  get card() {
    return this.cardOf(location.pathname)
  }

  cardOf(address) {
    return document.getElementById(`title-${address.slice(address.lastIndexOf("/") + 1)}`)
  }
}

function linkOf(target) {
  if (!(target instanceof Element)) return null
  const link = target.closest("a[data-over]")
  if (link || target.closest(INTERACTIVE) || !getSelection().isCollapsed) return link
  return target.closest(".board-card")?.querySelector("a[data-over]") ?? null
}
