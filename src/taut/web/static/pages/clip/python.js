// The Python of a section, folded away until it is asked for; the address says which one is open.

import { html } from 'taut/lib/html.js';
import { useUrlState } from 'taut/lib/url_state.js';
import { Code } from 'taut/widgets/code.js';

export function Python({ part, source }) {
  const [open, setOpen] = useUrlState('python', '');
  const shown = open === part;
  return html`
    <div class="python" data-part=${`python-${part}`}>
      <button type="button" class="text-button" aria-expanded=${shown} onClick=${() => setOpen(shown ? '' : part)}>
        ${shown ? 'Hide the Python' : 'The same in Python'}</button>
      ${shown && html`<${Code} source=${source} title="Prints the numbers shown here" />`}
    </div>`;
}
