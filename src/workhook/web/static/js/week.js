// A table of a week that is wider than the screen is moved just so far that today's column is in sight.
import { Controller } from "stimulus"

export default class extends Controller {
  connect() {
    const today = this.element.querySelector("th.today")
    if (!today || this.element.scrollWidth <= this.element.clientWidth) return
    const sum = this.element.querySelector("thead th:last-child") // it stays where it is, over the others
    this.element.scrollLeft += Math.max(0, today.getBoundingClientRect().right - sum.getBoundingClientRect().left)
  }
}
