import type { ASTNode } from '@marcbachmann/cel-js';
import type { Json } from '../model/json.ts';
import type { StepStatus } from '../model/manifest.ts';
import type { StepError } from '../model/run.ts';
import type { JsonPath } from './json-path.ts';

/** The data that expressions read. It must not change while it is in use. */
export interface ExpressionContext {
  readonly trigger: {
    readonly body: Json;
    /** The whole body if `body` is a document inside of it; otherwise the same as `body`. */
    readonly envelope?: Json | undefined;
    /** Lower-case names. */
    readonly headers: Readonly<Record<string, string>>;
    readonly key: string;
    /** All deliveries that started the run, in the order of arrival; `body` and `headers` are those of the last. */
    readonly deliveries?: readonly TriggerDelivery[] | undefined;
    /** For a cron trigger, the time of its tick, ISO 8601; otherwise null. */
    readonly scheduledFor?: string | null | undefined;
  };
  /** The same in every attempt of every step; absent if no step reads it. */
  readonly run?:
    | {
        readonly id: string;
        /** ISO 8601. */
        readonly startedAt: string;
        /** Id of the flow. */
        readonly flow: string;
        /** The revision that the run started with, whatever was deployed since. */
        readonly revision: number;
      }
    | undefined;
  /** Links to the steps that wait for an answer, by key; only step inputs can read them. */
  readonly waits?: Readonly<Record<string, { readonly url: string }>> | undefined;
  /** Steps that have ended, by key. */
  readonly steps: Readonly<
    Record<string, { readonly status: StepStatus; readonly output: Json; readonly error: StepError | null }>
  >;
  /** Absent outside of a loop. */
  readonly loop?: { readonly item: Json; readonly index: number } | undefined;
  /** The response that a poll judges; no other expression of a step reads it. */
  readonly response?: Json | undefined;
}

interface TriggerDelivery {
  /** Null if no webhook started the run. */
  readonly id: string | null;
  /** ISO 8601. */
  readonly receivedAt: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Json;
}

/** The purpose of an expression, which decides what it can read. */
export type Reader = 'step' | 'response' | 'item' | 'delivery' | 'handshake';

type Root =
  | 'trigger'
  | 'run'
  | 'waits'
  | 'vars'
  | 'steps'
  | 'loop'
  | 'response'
  | 'item'
  | 'body'
  | 'envelope'
  | 'headers'
  | 'query';

const ROOTS: Readonly<Record<Reader, readonly Root[]>> = {
  step: ['trigger', 'run', 'waits', 'vars', 'steps', 'loop', 'response'],
  response: ['trigger', 'run', 'waits', 'vars', 'steps', 'loop', 'response'],
  item: ['item', 'response'],
  delivery: ['body', 'envelope', 'headers'],
  handshake: ['body', 'headers', 'query'],
};

/** Whether a root of a delivery is its body, or the envelope around the document in it. */
export const isOfBody = (root: Root): boolean => root === 'body' || root === 'envelope';

/** Properties of the roots; those of `steps` and `waits` belong to each step. Other properties depend on the data. */
export const PROPERTIES: Readonly<Partial<Record<Root, readonly string[]>>> = {
  trigger: ['body', 'headers', 'key', 'deliveries', 'envelope', 'scheduledFor'],
  run: ['id', 'startedAt', 'flow', 'revision'],
  waits: ['url'],
  steps: ['status', 'output', 'error'],
  loop: ['item', 'index'],
  response: ['status', 'headers', 'body'],
};

/** A constant path from a root, such as `trigger.body.items`, and its position. */
export interface Reference {
  readonly root: Root;
  /** Root first. */
  readonly path: JsonPath;
  readonly position: number;
}

interface References {
  readonly references: readonly Reference[];
  /** Whether it loops over data, or matches it with a pattern: then the data decides how long it takes. */
  readonly isDataBound: boolean;
  /** Position of a macro variable that hides a root. */
  readonly shadowedAt: number | undefined;
}

/** Newer than flows whose macro variables have these names; there, the variable wins. */
const YIELDING: ReadonlySet<Root> = new Set(['run', 'waits']);

export const BINDING_MACROS = new Set(['all', 'exists', 'exists_one', 'map', 'filter', 'bind']);

/** Finds what an expression reads. Takes names from the source, because the parser may know them by an alias. */
export function findReferences(ast: ASTNode, source: string, reader: Reader = 'step'): References {
  const isRoot = (name: unknown): name is Root => ROOTS[reader].some((root) => root === name);
  const references: Reference[] = [];
  let isDataBound = false;
  let shadowedAt: number | undefined;

  const visit = (node: ASTNode, variables: readonly unknown[]): void => {
    const path = constantPath(node, source);
    const root = path?.[0];
    if (path !== undefined && isRoot(root) && !variables.includes(root)) {
      references.push({ root, path, position: node.start });
      return;
    }
    if (node.op === 'rcall') {
      const variable = node.args[2][0];
      const isBinding = BINDING_MACROS.has(node.args[0]);
      isDataBound ||= isBinding || node.args[0] === 'matches';
      const name = isBinding && variable?.op === 'id' ? nameOf(variable, source) : undefined;
      if (isRoot(name) && !YIELDING.has(name)) shadowedAt = variable?.start;
      visit(node.args[1], variables);
      for (const child of node.args[2]) visit(child, [...variables, name]);
      return;
    }
    for (const child of childrenOf(node)) visit(child, variables);
  };

  visit(ast, []);
  return { references, isDataBound, shadowedAt };
}

export function nameOf(identifier: ASTNode, source: string): string {
  return source.slice(identifier.start, identifier.end);
}

function constantPath(node: ASTNode, source: string): JsonPath | undefined {
  if (node.op === 'id') return [nameOf(node, source)];
  if (node.op !== '.' && node.op !== '[]') return undefined;
  const key = node.op === '.' ? node.args[1] : constantKey(node.args[1]);
  const base = key === undefined ? undefined : constantPath(node.args[0], source);
  return key === undefined || base === undefined ? undefined : [...base, key];
}

export function constantKey(node: ASTNode): string | number | undefined {
  if (node.op !== 'value') return undefined;
  if (typeof node.args === 'string') return node.args;
  return typeof node.args === 'bigint' ? Number(node.args) : undefined;
}

export function childrenOf(node: ASTNode): readonly ASTNode[] {
  switch (node.op) {
    case 'value':
    case 'id':
      return [];
    case '.':
    case '.?':
      return [node.args[0]];
    case 'call':
      return node.args[1];
    case 'rcall':
      return [node.args[1], ...node.args[2]];
    case 'map':
      return node.args.flat();
    case '!_':
    case '-_':
      return [node.args];
    default:
      return node.args;
  }
}
