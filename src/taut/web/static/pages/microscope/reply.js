import { html } from "taut/lib/html.js";

export function ReplyPage(properties) {
  return html`<h1>Reply</h1><p class="lead">${Object.values(properties).join(" · ")}</p>`;
}
