import { formatPath, type JsonPath, mapStrings } from '../expressions/json-path.ts';
import type { Json } from '../model/json.ts';
import { errorAt, type Problem, plainTextSecret } from './issues.ts';
import { MASK } from './mask.ts';
import { isReference, resolveSecret, type SecretReader } from './read-secret.ts';
import { type FoundSecret, holdsSecret, matches } from './secret-places.ts';
import type { Coalescing, KeyReader, Signalling, TriggerObject } from './trigger-part.ts';
import { type ObjectsOfTrigger, TRIGGER_OBJECTS } from './webhook-fields.ts';

/** The objects that a trigger has. */
export function objectsOf(
  trigger: object,
): (readonly [name: keyof ObjectsOfTrigger, object: TriggerObject, written: Json])[] {
  return Object.entries(TRIGGER_OBJECTS).flatMap(([name, object]) => {
    const written: unknown = Reflect.get(trigger, name);
    return written === undefined ? [] : [[name as keyof ObjectsOfTrigger, object, written as Json] as const];
  });
}

/** The signals that deliveries to the trigger send instead of starting runs. */
export function signalsOf(trigger: object): Signalling | undefined {
  return objectsOf(trigger).flatMap(([, object, written]) => object.signals?.(written) ?? [])[0];
}

/** How deliveries to the trigger share runs. */
export function coalescingOf(trigger: object): Coalescing | undefined {
  return objectsOf(trigger).flatMap(([, object, written]) => object.coalesces?.(written) ?? [])[0];
}

/** Reads the values by which runs of the trigger are found. */
export function keyReaderOf(trigger: object): KeyReader | undefined {
  return objectsOf(trigger).flatMap(([, object, written]) => object.searchKeys?.(written) ?? [])[0];
}

/** References and literal secrets in the objects. A field that is declared secret is one, whatever its key. */
export function objectSecrets(trigger: object): FoundSecret[] {
  return objectsOf(trigger).flatMap(([name, object, written]) =>
    secretPlaces(object, written)
      .filter(({ path, text, isOneOfMany }) => !isOneOfMany || holdsSecret(text, path))
      .map(({ path, text }) => ({ path: [name, ...path], text })),
  );
}

/** All possible secrets after references were read: one of many values no longer shows that it was a reference. */
export function valuesOfObjects(trigger: object): string[] {
  return objectsOf(trigger).flatMap(([, object, written]) => secretPlaces(object, written).map(({ text }) => text));
}

function secretPlaces(object: TriggerObject, written: Json) {
  const patterns = object.secrets(written).map((pattern) => pattern.split('.'));
  const found: (FoundSecret & { readonly isOneOfMany: boolean })[] = [];
  mapStrings(written, (text, path) => {
    const pattern = patterns.find((each) => matches(each, path));
    if (text !== '' && pattern !== undefined) found.push({ path, text, isOneOfMany: pattern.includes('*') });
    return text;
  });
  return found;
}

/** The trigger's objects with every secret read; one that cannot be read is empty and yields a problem. */
export function resolveObjects(
  trigger: object,
  path: JsonPath,
  readSecret: SecretReader,
): { readonly objects: ObjectsOfTrigger; readonly problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const values = new Map<string, string>();
  for (const { path: place, text } of objectSecrets(trigger)) {
    const at = [...path, ...place];
    const secret = resolveSecret(text, readSecret);
    values.set(formatPath(place), 'error' in secret ? '' : secret.value);
    if ('error' in secret) problems.push(errorAt(at, secret.error));
    else if (text === MASK) problems.push(errorAt(at, 'is the mask shown in place of a secret, not a token'));
    else if (!isReference(text)) problems.push(plainTextSecret(at));
  }
  return { objects: withTexts(trigger, values), problems };
}

/** The objects in a form that can be stored and shown: references kept, literal secrets masked. */
export function maskObjects(trigger: object): ObjectsOfTrigger {
  const literals = objectSecrets(trigger).filter(({ text }) => !isReference(text));
  return withTexts(trigger, new Map(literals.map(({ path }) => [formatPath(path), MASK])));
}

/** The unverified log or list that a trigger accepts, as one text. */
export function unverifiedSources(
  trigger: object,
  gates: Parameters<TriggerObject['unverified']>[1],
): string | undefined {
  const secrets = new Map(objectSecrets(trigger).map(({ path }) => [formatPath(path), '']));
  const open = objectsOf(withTexts(trigger, secrets)).flatMap(
    ([, object, written]) => object.unverified(written, gates) ?? [],
  );
  return open.length === 0 ? undefined : JSON.stringify(open);
}

function withTexts(trigger: object, texts: ReadonlyMap<string, string>): ObjectsOfTrigger {
  return Object.fromEntries(
    objectsOf(trigger).map(([name, , written]) => [
      name,
      mapStrings(written, (text, path) => texts.get(formatPath([name, ...path])) ?? text),
    ]),
  );
}
