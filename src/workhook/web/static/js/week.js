// A table of a week that is wider than the screen begins at today's column.
import { Controller } from "stimulus"

export default class extends Controller {
  connect() {
    const today = this.element.querySelector("th.today")
    if (!today || this.element.scrollWidth <= this.element.clientWidth) return
    const first = this.element.querySelector("thead th")
    this.element.scrollLeft += today.getBoundingClientRect().left - first.getBoundingClientRect().right
  }
}
