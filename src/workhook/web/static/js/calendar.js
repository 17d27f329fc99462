// Dragging a task to another day changes its deadline; if that fails, the task returns. Keyboard users edit the date in
// the task's menu.
import { Controller } from "stimulus"
import Sortable from "sortable"

export default class extends Controller {
  static targets = ["day", "form"]
  static values = { address: String }

  dayTargetConnected(list) {
    list.sortable = Sortable.create(list, {
      group: "days", sort: false, animation: 120, delay: 150, delayOnTouchOnly: true, draggable: ".may-move",
      filter: "details, details *", preventOnFilter: false,
      onStart: () => { this.element.dataset.busy = "" },
      onEnd: (event) => this.dropped(event),
    })
  }

  dayTargetDisconnected(list) {
    list.sortable?.destroy()
  }

  dropped(event) {
    delete this.element.dataset.busy
    if (event.from === event.to) return
    this.moved = { item: event.item, from: event.from }
    this.formTarget.action = `${this.addressValue}/${event.item.dataset.id}`
    this.formTarget.elements.deadline.value = event.to.dataset.day
    this.formTarget.requestSubmit()
  }

  settle(event) {
    if (!event.detail.success && this.moved) this.moved.from.append(this.moved.item)
    this.moved = null
  }
}
