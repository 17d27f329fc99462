// Dragging, keyboard moves and selection of cards. A move is one request; if it fails, the card returns.
import { Controller } from "stimulus"
import Sortable from "sortable"
import { renewKey } from "workhook/formkey"
import { areOn, isTyping } from "workhook/keyboard"

const ARROWS = { ArrowDown: "j", ArrowUp: "k", ArrowLeft: "h", ArrowRight: "l" }
const BEGINS = new Set(Object.values(ARROWS)) // without a focused card, arrow keys scroll

export default class extends Controller {
  static targets = ["list", "form"]
  static values = { base: String }

  connect() {
    this.none = (event) => { if (event.target.closest("#choose-none")) this.chooseNone() }
    document.addEventListener("click", this.none)
    this.chosen()
  }

  disconnect() {
    document.removeEventListener("click", this.none)
  }

  listTargetConnected(list) {
    if (!("mayMove" in list.dataset)) return
    list.sortable = Sortable.create(list, {
      group: "cards", animation: 120, delay: 150, delayOnTouchOnly: true, draggable: ".board-card", filter: "input", preventOnFilter: false,
      supportPointer: false, // Sortable ignores `pointercancel`, so a card would stay picked up after scrolling
      forceFallback: matchMedia("(pointer: coarse)").matches, // dragging to the edge scrolls the board
      fallbackOnBody: true, scrollSensitivity: 60, scrollSpeed: 10,
      onChoose: () => navigator.vibrate?.(10),
      onStart: () => { this.element.dataset.busy = "" },
      onEnd: (event) => this.dropped(event),
    })
  }

  listTargetDisconnected(list) {
    list.sortable?.destroy()
  }

  dropped(event) {
    delete this.element.dataset.busy
    if (event.from === event.to && event.oldDraggableIndex === event.newDraggableIndex) return
    const next = event.from.children[event.oldDraggableIndex + (event.from === event.to && event.newDraggableIndex < event.oldDraggableIndex ? 1 : 0)]
    this.send(event.item, () => event.from.insertBefore(event.item, next ?? null))
  }

  // `back` returns the card. The browser paints the new position before the request is sent.
  send(card, back) {
    this.formTarget.setAttribute("aria-busy", "true") // prevents refreshes meanwhile
    requestAnimationFrame(() => setTimeout(() => this.submit(card, back)))
  }

  submit(card, back) {
    const form = this.formTarget
    const list = card.parentElement
    form.action = `${this.baseValue}/tasks/${card.id}/move`
    form.elements.column_id.value = list.dataset.column
    form.elements.position.value = [...list.children].indexOf(card)
    form.addEventListener("turbo:submit-end", (event) => { if (!event.detail.success) back() }, { once: true })
    form.requestSubmit()
  }

  // --- keyboard ---

  press(event) {
    if (isTyping(event) || !areOn() || document.querySelector("dialog[open], details.menu[open]")) return
    const key = ARROWS[event.key] ?? event.key
    const card = document.activeElement.closest(".board-card")
    const link = card && this.element.contains(card) ? linkIn(card) : null
    if (!link) {
      if (BEGINS.has(event.key)) this.take(event, () => this.focus(linkIn(this.element)))
      return
    }
    if (event.shiftKey) {
      if (event.key in ARROWS) this.take(event, () => this.move(link, key))
      return
    }
    const actions = {
      j: () => this.focus(this.neighbour(link, 1)),
      k: () => this.focus(this.neighbour(link, -1)),
      h: () => this.focus(this.beside(link, -1)),
      l: () => this.focus(this.beside(link, 1)),
      x: () => this.choose(link),
      e: () => this.open(link, "#edit-title"),
      a: () => this.open(link, "#form-assign"),
      t: () => this.startTimer(link),
      c: () => link.closest(".column").querySelector(".add-card input")?.focus(),
    }
    if (key in actions) this.take(event, actions[key])
  }

  take(event, action) {
    event.preventDefault()
    event.stopImmediatePropagation()
    action()
  }

  focus(link) {
    link?.focus()
  }

  neighbour(link, step) {
    const card = link.closest("li")
    return linkIn(step > 0 ? card.nextElementSibling : card.previousElementSibling)
  }

  // The neighbor at the same height in the next column that has cards.
  beside(link, step) {
    const place = [...link.closest("ol").children].indexOf(link.closest("li"))
    for (let list = this.nextList(link.closest("ol"), step); list; list = this.nextList(list, step)) {
      const card = list.children[Math.min(place, list.children.length - 1)]
      if (card && list.offsetParent) return linkIn(card)
    }
  }

  nextList(list, step) {
    return this.listTargets[this.listTargets.indexOf(list) + step]
  }

  move(link, key) {
    const card = link.closest("li")
    const list = card.parentElement
    if (!("mayMove" in list.dataset)) return
    const next = card.nextElementSibling
    const back = () => { list.insertBefore(card, next); this.focus(link) }
    if (key === "j" && next) list.insertBefore(next, card)
    else if (key === "k" && card.previousElementSibling) list.insertBefore(card, card.previousElementSibling)
    else if (key === "h" || key === "l") {
      const other = this.nextList(list, key === "l" ? 1 : -1)
      if (!other) return
      other.insertBefore(card, other.children[[...list.children].indexOf(card)] ?? null)
    } else return
    this.focus(link)
    this.moved = card.id
    this.send(card, back)
  }

  // A card that a refresh has moved loses the focus.
  focusAgain() {
    this.chosen()
    if (!this.moved || document.activeElement !== document.body) return
    this.focus(linkIn(document.getElementById(this.moved)))
    this.moved = null
  }

  open(link, part) {
    const opening = this.dispatch("open", { detail: { link, part } })
    if (!opening.defaultPrevented) location.assign(link.href + part)
  }

  startTimer(link) {
    this.formTarget.action = `${this.baseValue}/tasks/${link.closest("li").id}/timer`
    renewKey(this.formTarget)
    this.formTarget.requestSubmit()
  }

  // --- selection ---

  choose(link) {
    const box = link.closest("li").querySelector(".choose")
    if (!box) return
    box.checked = !box.checked
    this.chosen()
  }

  // On touch screens, the checkboxes are shown until the selection ends.
  chooseSome({ target }) {
    target.closest("details").open = false
    this.isChoosing = true
    this.chosen()
  }

  chosen() {
    const bar = document.getElementById("selection")
    if (!bar) return
    let count = 0
    for (const each of this.element.getElementsByClassName("choose")) {
      each.closest("li").classList.toggle("chosen", each.checked)
      if (each.checked) count += 1
    }
    const isChoosing = this.isChoosing || count > 0
    this.element.classList.toggle("choosing", isChoosing)
    bar.classList.toggle("open", isChoosing)
    bar.querySelector("[data-selection-count]").textContent = count
  }

  chooseNone() {
    this.isChoosing = false
    for (const each of this.element.getElementsByClassName("choose")) each.checked = false
    this.chosen()
  }
}

// Stimulus targets would be too slow for hundreds of cards on each key press.
function linkIn(around) {
  return around?.querySelector(".card-title a")
}
