// The clip explorer: PPO's clip on one token, from a first push to the family that grew from it.

import { useMemo } from 'preact/hooks';
import { html } from 'taut/lib/html.js';
import { Cases } from 'taut/pages/clip/cases.js';
import { Explorer } from 'taut/pages/clip/explorer.js';
import { Gallery } from 'taut/pages/clip/gallery.js';
import { Probability } from 'taut/pages/clip/probability.js';
import { Quiz } from 'taut/pages/clip/quiz.js';
import { Regions } from 'taut/pages/clip/regions.js';
import { useToken } from 'taut/pages/clip/state.js';
import { Walk } from 'taut/pages/clip/walk.js';
import { Term } from 'taut/widgets/term.js';

export function ClipPage() {
  const token = useToken();
  // The same markup each time: these draw themselves anew when their own state changes, not with the token.
  const walk = useMemo(() => html`<${Walk} />`, []);
  const rest = useMemo(() => html`<div><${Probability} /><${Gallery} /><${Quiz} /></div>`, []);
  return html`
    <div class="clip-page">
      <h1>The clip</h1>
      <p class="lead">Sampling is slow, so PPO updates several times on each batch of replies.
        The <${Term} name="probability ratio">ratio ρ</${Term}> is a token’s probability now ÷
        under the <${Term} name="old policy">old policy</${Term}>, which sampled it. Once ρ leaves 1 ± ε on
        the side that its <${Term} name="advantage">advantage A</${Term}> favours, the <${Term} name="surrogate">objective</${Term}> goes
        flat, and the push stops.</p>
      <${Explorer} token=${token} />
      <${Cases} token=${token} />
      ${walk}
      <${Regions} token=${token} />
      ${rest}
    </div>`;
}
