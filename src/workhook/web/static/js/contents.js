// A table of contents that is open if it fits next to the text.
import { Controller } from "stimulus"

export default class extends Controller {
  connect() {
    if (matchMedia("(min-width: 60rem)").matches) this.element.open = true
  }
}
