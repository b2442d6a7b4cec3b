import { formatPath, type JsonPath } from '../expressions/json-path.ts';
import { errorAt, type Problem, unknownKey } from './issues.ts';
import { isObject, LAST_SEGMENT } from './json-text.ts';
import { placeElsewhere } from './misplaced.ts';
import { STRUCTURAL_KEYS } from './schema.ts';
import { TRIGGER_OBJECTS } from './webhook-fields.ts';

/** A manifest with its structural keys in canonical spelling; trigger keys, step keys and inputs are unchanged. */
interface CanonicalManifest {
  readonly value: unknown;
  /** Unknown keys and keys given twice; their paths are already spelled as in the file. */
  readonly problems: readonly Problem[];
  /** Turns a canonical path into the path as spelled in the file. */
  readonly spell: (path: string) => string;
}

/** The allowed keys of an object and the forms of their values, or one form for the values of the author's own keys. */
type Form =
  | { readonly keys: readonly string[]; readonly inner?: Readonly<Record<string, Form>> }
  | { readonly each: Form };

const EDGE: Form = { keys: STRUCTURAL_KEYS.edge };
const TRIGGER: Form = {
  keys: STRUCTURAL_KEYS.trigger,
  inner: Object.fromEntries(
    Object.entries(TRIGGER_OBJECTS).flatMap(([name, { keys }]) => (keys ? [[name, { keys }]] : [])),
  ),
};
const STEP: Form = {
  keys: STRUCTURAL_KEYS.step,
  inner: {
    runAfter: { each: EDGE },
    retry: { keys: STRUCTURAL_KEYS.retry },
    get steps(): Form {
      return { each: STEP };
    },
  },
};
const MANIFEST: Form = {
  keys: STRUCTURAL_KEYS.manifest,
  inner: { triggers: { each: TRIGGER }, steps: { each: STEP } },
};

/** The place of a value: by canonical keys, and as spelled in the file. */
interface Place {
  readonly canonical: JsonPath;
  readonly spelled: JsonPath;
}

/** The input names of a step type. */
type InputsOfStep = (stepType: unknown) => readonly string[];

export function canonicalKeys(manifest: unknown, inputsOf: InputsOfStep = () => []): CanonicalManifest {
  const problems: Problem[] = [];
  const spellings = new Map<string, string>();

  const rename = (value: unknown, form: Form, place: Place): unknown => {
    if (!isObject(value)) return value;
    const first = new Map<string, string>();
    const entries: [string, unknown][] = [];
    for (const [key, item] of Object.entries(value)) {
      const spelled = [...place.spelled, key];
      const name = canonicalName(key, form);
      const before = name === undefined ? undefined : first.get(name);
      if (name === undefined) {
        const known = form === STEP ? inputsOf(value.type ?? value.Type) : [];
        const message =
          'keys' in form ? unknownKey(key, form.keys, placeElsewhere(spelled, known)) : 'is not accepted as a key';
        problems.push(errorAt(spelled, message));
      } else if (before !== undefined) {
        problems.push(errorAt(spelled, `is given twice: "${before}" and "${key}" are the same key`));
      } else {
        first.set(name, key);
        const canonical = [...place.canonical, name];
        if (name !== key) spellings.set(formatPath(canonical), formatPath(spelled));
        const inner = 'keys' in form ? form.inner?.[name] : form.each;
        entries.push([name, inner === undefined ? item : rename(item, inner, { canonical, spelled })]);
      }
    }
    return Object.fromEntries(entries);
  };

  const value = rename(manifest, MANIFEST, { canonical: [], spelled: [] });
  return { value, problems, spell: (path) => spellPath(path, spellings) };
}

function canonicalName(key: string, form: Form): string | undefined {
  if ('keys' in form) return form.keys.find((name) => name.toLowerCase() === key.toLowerCase());
  // It would set a prototype wherever an object is built from these keys.
  return key === '__proto__' ? undefined : key;
}

function spellPath(path: string, spellings: ReadonlyMap<string, string>): string {
  const known = spellings.get(path);
  if (known !== undefined) return known;
  const [segment] = LAST_SEGMENT.exec(path) ?? [];
  if (segment === undefined) return path;
  return spellPath(path.slice(0, -segment.length), spellings) + segment;
}
