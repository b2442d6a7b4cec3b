import type { ASTNode } from '@marcbachmann/cel-js';
import type { CompiledExpression } from '../../expressions/compile.ts';
import { BINDING_MACROS, childrenOf, constantKey, nameOf } from '../../expressions/context.ts';
import type { OpenPath } from '../../expressions/json-path.ts';
import { PATH_USES, type PathType, type PathUse } from './paths.ts';

/** A path that an expression reads, starting at a root that the expression names. */
export interface PathRead {
  readonly path: OpenPath;
  readonly use: PathUse;
}

/** The paths that an expression reads, and the path of its value if the expression is only a path. */
interface PathsRead {
  readonly reads: readonly PathRead[];
  readonly value: PathRead | undefined;
}

const ROOTS = new Set(['trigger', 'loop', 'body', 'headers']);

/**
 * Finds the paths that an expression reads, including paths in list items: `body.items[].sku` in `body.items.all(i,
 * i.sku != "")`. A computed index means every item.
 *
 * Paths behind `?`, `&&`, `||`, `all` or `exists` are read for some values only, so they are conditional. A path tested
 * with `has()` or `in` is optional, and so are all paths below it in this expression.
 */
export function pathsRead({ ast, source }: Pick<CompiledExpression, 'ast' | 'source'>): PathsRead {
  const reader = new Reader(source);
  const value = reader.read(ast, { use: 'required', variables: new Map() });
  const asked = reader.reads.filter(({ use }) => use === 'optional').map(({ path }) => path);
  return {
    reads: reader.reads.map((read) => (asked.some((path) => isWithin(read.path, path)) ? optional(read) : read)),
    value,
  };
}

const optional = ({ path }: PathRead): PathRead => ({ path, use: 'optional' });

/** Whether a path equals another one, or is below it. */
export function isWithin(path: OpenPath, other: OpenPath): boolean {
  return other.length <= path.length && other.every((key, index) => key === path[index]);
}

/** The use by which less depends on the path. */
function weaker(one: PathUse, other: PathUse): PathUse {
  return PATH_USES.indexOf(one) < PATH_USES.indexOf(other) ? other : one;
}

/** The context of an expression: how much depends on it, and the paths of macro variables. */
interface Surroundings {
  readonly use: PathUse;
  readonly variables: ReadonlyMap<string, PathRead | undefined>;
}

class Reader {
  readonly reads: PathRead[] = [];
  readonly #source: string;

  constructor(source: string) {
    this.#source = source;
  }

  /** Records the paths that a node reads; returns the path if the node is one. */
  read(node: ASTNode, around: Surroundings): PathRead | undefined {
    const place = this.#placeOf(node, around);
    if (place === undefined) this.#readParts(node, around);
    else this.reads.push(place);
    return place;
  }

  #readParts(node: ASTNode, around: Surroundings): void {
    const sometimes = { ...around, use: weaker(around.use, 'conditional') };
    if (node.op === '?:' || node.op === '&&' || node.op === '||') {
      const [first, ...others] = node.args;
      this.read(first, around);
      for (const other of others) this.read(other, sometimes);
    } else if (node.op === 'call' && node.args[0] === 'has') {
      for (const asked of node.args[1]) this.#ask(this.#placeOf(asked, around));
    } else if (node.op === 'in') {
      const [key, owner] = node.args;
      const place = this.#placeOf(owner, around);
      const name = constantKey(key);
      if (place !== undefined && name !== undefined) this.#ask(below(place, name));
      else this.read(owner, around);
      this.read(key, around);
    } else if (node.op === 'rcall' && BINDING_MACROS.has(node.args[0])) this.#readMacro(node, around);
    else for (const child of childrenOf(node)) this.read(child, around);
  }

  /** `has(a.b)` and `"b" in a` fail without `a`. */
  #ask(place: PathRead | undefined): void {
    if (place === undefined) return;
    this.reads.push({ path: place.path.slice(0, -1), use: place.use }, optional(place));
  }

  /** Returns the path of the list that it loops over. */
  #readMacro(node: ASTNode & { op: 'rcall' }, around: Surroundings): PathRead | undefined {
    const [macro, receiver, [variable, ...parts]] = node.args;
    const isBind = macro === 'bind';
    const list = isBind ? undefined : this.read(receiver, around);
    const bound = isBind && parts[0] !== undefined ? this.read(parts[0], around) : list && below(list, null);
    const name = variable === undefined ? '' : nameOf(variable, this.#source);
    // `all` and `exists` stop at the first item that decides.
    const isEach = macro !== 'all' && macro !== 'exists';
    const within = {
      use: isEach ? around.use : weaker(around.use, 'conditional'),
      variables: new Map([...around.variables, [name, bound]]),
    };
    for (const part of isBind ? parts.slice(1) : parts) this.read(part, within);
    return list;
  }

  #placeOf(node: ASTNode, around: Surroundings): PathRead | undefined {
    if (node.op === 'id') {
      const name = nameOf(node, this.#source);
      const bound = around.variables.get(name);
      if (around.variables.has(name)) return bound && { path: bound.path, use: weaker(bound.use, around.use) };
      return ROOTS.has(name) ? { path: [name], use: around.use } : undefined;
    }
    if (node.op === '.') {
      const owner = this.#placeOf(node.args[0], around);
      return owner && below(owner, node.args[1]);
    }
    if (node.op === '[]') {
      const [owner, key] = node.args;
      const place = this.#placeOf(owner, around);
      if (place === undefined) return undefined;
      const name = constantKey(key);
      if (name === undefined) this.read(key, around);
      return below(place, name ?? null);
    }
    if (node.op !== 'rcall' || node.args[0] !== 'filter') return undefined;
    const list = this.#readMacro(node, around);
    // Only some items: reading a part of them does not read it in all items.
    return list && { path: list.path, use: weaker(list.use, 'conditional') };
  }
}

function below({ path, use }: PathRead, key: string | number | null): PathRead {
  return { path: [...path, key], use };
}

/** Values to check for one path: a sender can nest lists with any number of items. */
const MOST_VALUES = 1000;

/**
 * The type of a value at a path. Undefined if the value cannot show it: the path leads into the items of an empty list.
 */
export function typeAt(value: unknown, path: OpenPath): PathType | undefined {
  let left = MOST_VALUES;
  const look = (found: unknown, from: number): PathType | undefined => {
    left -= 1;
    let inner = found;
    for (let index = from; index < path.length; index += 1) {
      const key = path[index];
      if (key === null || key === undefined) {
        const types = new Set<PathType | undefined>();
        for (const item of Array.isArray(inner) ? inner : []) {
          if (left <= 0) break;
          types.add(look(item, index + 1));
        }
        return ofAll(types);
      }
      if (typeof inner !== 'object' || inner === null || !Object.hasOwn(inner, key)) return 'absent';
      if (Array.isArray(inner) && typeof key === 'string') return 'absent';
      inner = Reflect.get(inner, key);
    }
    return typeOf(inner);
  };
  return look(value, 0);
}

function ofAll(found: ReadonlySet<PathType | undefined>): PathType | undefined {
  const types = [...found].filter((type) => type !== undefined);
  if (types.length <= 1 || types.includes('absent')) return types.includes('absent') ? 'absent' : types[0];
  const others = types.filter((type) => type !== 'null');
  return others.length === 1 ? others[0] : 'mixed';
}

function typeOf(value: unknown): PathType {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  const type = typeof value;
  return type === 'string' || type === 'number' || type === 'boolean' ? type : 'object';
}
