// What of a plan is left where models are left out, and where its peak is: checks/memory.py's sums.

const PARTIES = ["policy", "critic", "reference", "reward model"];

// Whose memory a term is: one of the models, or what is at work for a while.
export function party(name) {
  if (name === "gradient of the LM head") return "at work";
  return PARTIES.find((one) => name.startsWith(one)) ?? "at work";
}

// {held, phase, peak} in bytes and terms: `plan` as /api/plan tells it, without the models whose `parts` are false.
export function partsOf(plan, parts) {
  const kept = (terms) => terms.filter((term) => parts[party(term.name)] !== false);
  const total = (terms) => terms.reduce((sum, term) => sum + term.bytes, 0);
  const phases = plan.phases
    .filter((phase) => parts[party(phase.name)] !== false)
    .map((phase) => ({ name: phase.name, terms: kept(phase.terms) }));
  const held = kept(plan.held.terms);
  const fullest = phases.reduce((most, phase) => (total(phase.terms) > total(most.terms) ? phase : most));
  return { held, phase: fullest, heldBytes: total(held), peak: total(held) + total(fullest.terms) };
}
