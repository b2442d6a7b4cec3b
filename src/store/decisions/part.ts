import type { StorePart } from '../part.ts';
import type { FlowChange } from '../store.ts';
import type { Decision } from './decision.ts';
import type { Answering, Port } from './port.ts';

/** A verb of a part, written once for every backend. Its arguments and its answer are those of `decide`. */
type WrittenVerb = {
  decide(port: Port, ...given: never[]): Decision<unknown>;
} & (
  | {
      /** `log`: reads the delivery log, which may be visible only to the connection that writes. */
      readonly access: 'read' | 'log';
    }
  | {
      readonly access: 'write';
      /** What other processes must know of it; null if they keep nothing of what it writes. See `Announced`. */
      readonly changes: null | ((given: never, answer: never) => readonly FlowChange[]);
    }
);

export interface WrittenPart extends StorePart {
  readonly verbs: Readonly<Record<string, WrittenVerb>>;
  /** Only one part has this. */
  readonly answering?: Answering;
}

export const storePart = <const Part extends WrittenPart>(part: Part): Part => part;

/** The verbs of all parts. Throws if one has the name of a member of the kernel, or of another part's verb. */
export function verbsOfParts(parts: readonly WrittenPart[], kernel: object): WrittenPart['verbs'] {
  const verbs: Record<string, WrittenVerb> = {};
  for (const part of parts) {
    for (const [name, verb] of Object.entries(part.verbs)) {
      if (Object.hasOwn(kernel, name) || Object.hasOwn(verbs, name)) {
        throw new Error(`The store has a member ${name} already; the part ${part.name} needs another name for it.`);
      }
      verbs[name] = verb;
    }
  }
  return verbs;
}
