import type { Members, StorePart } from '../../src/store/part.ts';
import type { Store } from '../../src/store/store.ts';

/** The same store with some verbs of a part replaced. */
export function withVerbs<Part extends StorePart>(store: Store, part: Part, verbs: Partial<Members<Part>>): Store {
  const own = { ...store.of(part), ...verbs };
  return { ...store, of: (asked) => (asked.name === part.name ? own : store.of(asked)) as never };
}

/** A store with only these verbs of one part. */
export const onlyVerbs = (verbs: object): Pick<Store, 'of'> => ({ of: () => verbs as never });
