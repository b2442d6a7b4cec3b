import { formatPath, type JsonPath } from '../expressions/json-path.ts';
import { STRUCTURAL_KEYS } from './schema.ts';
import { TRIGGER_OBJECTS, WEBHOOK_FIELDS } from './webhook-fields.ts';

interface Level {
  readonly names: readonly string[];
  /** The owner of the fields: a trigger, a step or the manifest itself. */
  readonly of: 'triggers' | 'steps' | undefined;
  readonly below: JsonPath;
  /** Named in the hint if the place is right, but in a trigger or step of another type. */
  readonly type?: string;
  /** Its names are common words, so the authors of steps get no hints about them. */
  readonly isOfTriggers?: true;
}

const LEVELS: readonly Level[] = [
  { names: STRUCTURAL_KEYS.trigger, of: 'triggers', below: [] },
  { names: WEBHOOK_FIELDS.all, of: 'triggers', below: ['inputs'], type: 'a webhook trigger' },
  { names: STRUCTURAL_KEYS.cron, of: 'triggers', below: ['inputs'], type: 'a cron trigger' },
  ...Object.entries(TRIGGER_OBJECTS).map(
    ([name, { keys = [] }]): Level => ({ names: keys, of: 'triggers', below: [name], isOfTriggers: true }),
  ),
  { names: STRUCTURAL_KEYS.step, of: 'steps', below: [] },
  { names: STRUCTURAL_KEYS.edge, of: 'steps', below: ['runAfter', 'KEY'] },
  { names: STRUCTURAL_KEYS.retry, of: 'steps', below: ['retry'] },
  { names: STRUCTURAL_KEYS.manifest, of: undefined, below: [] },
];

/** `; its place is triggers.orders.searchKeys` for a manifest field in the wrong place; `path` ends with its name. */
export function placeElsewhere(path: JsonPath, inputsOfStep: readonly string[] = []): string | undefined {
  const written = String(path.at(-1)).toLowerCase();
  const owner = ownerOf(path);
  const own: Level = { names: inputsOfStep, of: 'steps', below: ['inputs'] };
  const found = [own, ...LEVELS].flatMap((level) => {
    const name = level.names.find((each) => each.toLowerCase() === written);
    if (name === undefined || (level.isOfTriggers && owner[0] === 'steps')) return [];
    const isNear = level.of === owner[0];
    const around = isNear ? owner : level.of === undefined ? [] : [level.of, 'KEY'];
    return [{ isNear, text: textOf([...around, ...level.below, name], path, level) }];
  });
  const near = found.filter(({ isNear }) => isNear);
  const places = (near.length > 0 ? near : found).flatMap(({ text }) => text ?? []);
  return places.length === 0 ? undefined : `; its place is ${[...new Set(places)].join(' or ')}`;
}

function textOf(place: JsonPath, path: JsonPath, { type }: Level): string | undefined {
  const isSame = formatPath(place).toLowerCase() === formatPath(path).toLowerCase();
  // Misspelt names that are known right here get a spelling hint instead.
  if (isSame) return place.at(-1) === path.at(-1) ? type : undefined;
  return place.length === 1 ? 'the top of the manifest' : formatPath(place);
}

/** The path of the trigger or innermost step around a place; empty if there is none. */
function ownerOf(path: JsonPath): JsonPath {
  const isAt = (index: number, key: string) => String(path[index]).toLowerCase() === key && path.length > index + 2;
  if (isAt(0, 'triggers')) return ['triggers', ...path.slice(1, 2)];
  let owner: JsonPath = [];
  while (isAt(owner.length, 'steps')) owner = [...owner, 'steps', ...path.slice(owner.length + 1, owner.length + 2)];
  return owner;
}
