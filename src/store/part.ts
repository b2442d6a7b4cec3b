/** A member that a part adds to every store, as callers see it; `decisions/part.ts` says how to write one. */
interface PartVerb {
  readonly access: 'read' | 'log' | 'write';
  decide(port: never, ...given: never[]): Iterator<unknown, unknown, unknown>;
}

/** What a feature adds to the store. `features/store.ts` lists the parts. */
export interface StorePart {
  readonly name: string;
  readonly verbs: Readonly<Record<string, PartVerb>>;
}

type Member<Verb> = Verb extends {
  decide: (port: never, ...given: infer Given) => Iterator<unknown, infer Answer, unknown>;
}
  ? (...given: Given) => Promise<Answer>
  : never;

/** The verbs of a part as a caller has them: each is one transaction, like the members of the store. */
export type Members<Part extends StorePart> = { readonly [Name in keyof Part['verbs']]: Member<Part['verbs'][Name]> };

/** Makes `Store.of` from all members that a store has, those of the listed parts included. */
export function handlesOf(
  members: Readonly<Record<string, unknown>>,
): <Part extends StorePart>(part: Part) => Members<Part> {
  const handles = new Map<StorePart, object>();
  const handleOf = ({ name: partName, verbs }: StorePart) => {
    const own = Object.keys(verbs).map((name) => {
      if (!Object.hasOwn(members, name)) throw new Error(`The part ${partName} is not in the list of store parts.`);
      return [name, members[name]] as const;
    });
    return Object.fromEntries(own);
  };
  return (part) => {
    const handle = handles.get(part) ?? handleOf(part);
    handles.set(part, handle);
    // The operations of the backends have no types for names that they do not know; the part has these types.
    return handle as never;
  };
}
