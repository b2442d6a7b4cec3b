import './installed.ts';
import { type CelResult, isCelError, isCelList, isCelMap, isCelUint, run } from '@bufbuild/cel';
import { strings } from '@bufbuild/cel/ext';
import { tests } from '@bufbuild/cel-spec/testdata/conformance.js';
import type { Json } from '../../src/model/json.ts';

/** Of CEL's own tests of conformance: an expression, and its value or that it fails. Shapes are protobuf's JSON. */
export interface CelCase {
  /** The first name is that of the file in cel-spec. */
  readonly path: readonly string[];
  readonly name: string;
  readonly expr: string;
  readonly value?: CelValue;
  readonly evalError?: object;
}

type CelValue = Readonly<Record<string, unknown>>;

interface Suite {
  readonly name: string;
  readonly suites?: readonly Suite[];
  readonly tests?: readonly { readonly original: Omit<CelCase, 'path'> & Readonly<Record<string, unknown>> }[];
}

/** The cases that need no variables, messages or checks of types. */
export function celCases(): CelCase[] {
  const casesOf = ({ name, suites = [], tests: own = [] }: Suite, above: readonly string[]): CelCase[] => {
    const path = [...above, name];
    const plain = own
      .map(({ original }) => ({ ...original, path }))
      .filter((each) => !['bindings', 'container', 'typeEnv', 'checkOnly', 'typedResult'].some((key) => key in each));
    return [...plain, ...suites.flatMap((each) => casesOf(each, path))];
  };
  return ((tests as Suite).suites ?? []).flatMap((each) => casesOf(each, []));
}

/** What another implementation of CEL makes of it, as JSON; undefined if it fails. */
export function byOtherCel(source: string, names: Readonly<Record<string, Json>>): Json | undefined {
  let result: CelResult;
  try {
    result = run(source, names as never, { funcs: strings });
  } catch {
    return undefined;
  }
  return isCelError(result) ? undefined : toJson(result);
}

function toJson(value: unknown): Json {
  if (typeof value === 'bigint') return ofInt(value);
  if (isCelUint(value)) return ofInt(value.value);
  if (isCelList(value)) return [...value].map(toJson);
  if (isCelMap(value))
    return Object.fromEntries([...value.entries()].map(([key, item]) => [String(key), toJson(item)]));
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  if (value === null || ['string', 'boolean', 'number'].includes(typeof value)) return value as Json;
  throw new Error(`the tests do not read a result such as ${String(value)}`);
}

const ofInt = (value: bigint): Json =>
  Number.isSafeInteger(Number(value)) ? Number(value) : JSON.rawJSON(value.toString());
