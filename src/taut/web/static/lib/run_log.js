// What a page knows of one run: columns of numbers that grow as messages of the stream come in.
import { number } from "taut/lib/number.js";

/** Numbers that are appended; what `view` gave out before stays as it was. */
class Growing {
  constructor() {
    this.numbers = new Float64Array(64);
    this.length = 0;
  }

  push(value) {
    if (this.length === this.numbers.length) {
      const larger = new Float64Array(2 * this.length);
      larger.set(this.numbers);
      this.numbers = larger;
    }
    this.numbers[this.length] = value;
    this.length += 1;
  }

  view() {
    return this.numbers.subarray(0, this.length);
  }

  /** Those at the places that `keep` holds true, in numbers of their own. */
  filtered(keep) {
    const rest = new Growing();
    for (let place = 0; place < this.length; place += 1) if (keep(place)) rest.push(this.numbers[place]);
    return rest;
  }
}

class Column {
  constructor() {
    this.ids = new Growing();
    this.steps = new Growing();
    this.values = new Growing();
  }

  push(id, step, value) {
    this.ids.push(id);
    this.steps.push(step);
    this.values.push(value);
  }

  without(superseded) {
    const keep = (place) => !superseded.has(this.ids.numbers[place]);
    const rest = new Column();
    for (const part of ["ids", "steps", "values"]) rest[part] = this[part].filtered(keep);
    return rest;
  }
}

export class RunLog {
  constructor(name) {
    this.name = name;
    this.cursor = "-";
    this.forget();
    this.status = "loading";
    this.error = undefined;
  }

  forget() {
    this.rows = new Column(); // one row a step, whatever it measured; values unused
    this.columns = new Map();
    this.events = [];
    this.shown = null;
  }

  /** Takes in a message: an increment, or a status alone. */
  apply(message) {
    if (message.reset || message.status === "gone") this.forget();
    this.status = message.status;
    this.error = message.error;
    this.shown = null;
    if (message.status === "gone") this.cursor = "-";
    if (message.ids === undefined) return;
    this.cursor = message.cursor;
    this.created = message.created;
    this.heartbeat = message.heartbeat;
    if (message.superseded) this.supersede(new Set(message.superseded));
    this.append(message);
    if (message.events.length) this.events = [...this.events, ...message.events];
  }

  append({ ids, steps, scalars }) {
    for (const [place, id] of ids.entries()) this.rows.push(id, steps[place], 0);
    for (const [name, values] of Object.entries(scalars)) {
      if (!this.columns.has(name)) this.columns.set(name, new Column());
      const column = this.columns.get(name);
      for (const [place, cell] of values.entries()) {
        const value = number(cell); // undefined where the step has no such number: it gets no point
        if (value !== undefined) column.push(ids[place], steps[place], value);
      }
    }
  }

  /** Steps that a resume takes again go. */
  supersede(ids) {
    const known = this.rows.ids.view();
    if (!known.some((id) => ids.has(id))) return;
    this.rows = this.rows.without(ids);
    for (const [name, column] of this.columns) this.columns.set(name, column.without(ids));
  }

  /**
   * {name, status, error, created, heartbeat, step, events, scalars}. `scalars` is a Map of a metric's name to
   * {x, y}, its steps and values as Float64Arrays, NaN and infinities as they are. Status is one of running, finished,
   * failed, interrupted, dead; loading before the first word, gone where there is no such run, unreadable with `error`.
   * The same object until something changes.
   */
  snapshot() {
    if (this.shown === null) {
      const { name, status, error, created, heartbeat, events } = this;
      const scalars = new Map();
      for (const [metric, column] of this.columns) {
        if (column.values.length) scalars.set(metric, { x: column.steps.view(), y: column.values.view() });
      }
      const step = this.rows.steps.length ? this.rows.steps.view().at(-1) : undefined;
      this.shown = { name, status, error, created, heartbeat, step, events, scalars };
    }
    return this.shown;
  }
}

/** The newest value of a metric in a snapshot; undefined where it was never measured. */
export function newest(run, metric) {
  return run.scalars.get(metric)?.y.at(-1);
}
