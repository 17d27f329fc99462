// Dragging cards between and within columns. A move is one request; when it fails the card goes back.
import { Controller } from "stimulus"
import Sortable from "sortable"

export default class extends Controller {
  static targets = ["list", "card"]
  static values = { base: String }

  listTargetConnected(list) {
    list.sortable = Sortable.create(list, {
      group: "cards", animation: 120, delay: 150, delayOnTouchOnly: true, draggable: ".board-card",
      onStart: () => { this.element.dataset.busy = "" },
      onEnd: (event) => this.dropped(event),
    })
  }

  listTargetDisconnected(list) {
    list.sortable?.destroy()
  }

  async dropped(event) {
    delete this.element.dataset.busy
    if (event.from === event.to && event.oldDraggableIndex === event.newDraggableIndex) return
    await this.move(event.item.id, event.to.dataset.column, event.newDraggableIndex)
  }

  async move(id, column, position) {
    const form = document.createElement("form")
    form.method = "post"
    form.action = `${this.baseValue}/tasks/${id}/move`
    const csrf = document.querySelector("input[name=csrf]").value
    for (const [name, value] of Object.entries({ csrf, column_id: column, position })) {
      const field = document.createElement("input")
      field.type = "hidden"
      field.name = name
      field.value = value
      form.append(field)
    }
    document.body.append(form)
    form.requestSubmit()
    form.remove()
  }
}
