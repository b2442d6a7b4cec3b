import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Chance } from '../chance.ts';
import { Bytes } from './bytes.ts';
import type { Change } from './journal.ts';
import type { Loss, Unflushed } from './losses.ts';

interface Ordered<Item> {
  readonly order: number;
  readonly item: Item;
}

/** A file or folder: its durable state, and its unflushed changes, oldest first. */
abstract class Kept<Item> {
  protected unflushed: Ordered<Item>[] = [];
  readonly #flushes = new Map<number, number>();

  change(order: number, item: Item): void {
    this.unflushed.push({ order, item });
  }

  beginFlush(flush: number, order: number): void {
    this.#flushes.set(flush, order);
  }

  /** Changes after the start of the flush may not be part of it. */
  endFlush(flush: number): void {
    const last = this.#flushes.get(flush) ?? -1;
    for (const { item } of this.unflushed.filter(({ order }) => order <= last)) this.settle(item);
    this.unflushed = this.unflushed.filter(({ order }) => order > last);
  }

  get changes(): readonly Item[] {
    return this.unflushed.map(({ item }) => item);
  }

  protected abstract settle(item: Item): void;
}

class File extends Kept<Unflushed> {
  readonly #flushed: Bytes;

  constructor(bytes?: Buffer) {
    super();
    this.#flushed = new Bytes(bytes);
  }

  after(lossOf: () => Loss, chance: Chance): Bytes {
    const { changes } = this;
    return changes.length === 0 ? this.#flushed : lossOf()(this.#flushed.view(), changes, chance);
  }

  protected override settle(change: Unflushed): void {
    if (change.kind === 'cut') this.#flushed.cut(change.size);
    else this.#flushed.write(change.at, change.bytes);
  }
}

type Node = File | Folder;

/** A change of a folder's names: one is added, removed, or replaces another. */
type Naming =
  | { readonly kind: 'added'; readonly name: string; readonly node: Node }
  | { readonly kind: 'removed'; readonly name: string }
  | { readonly kind: 'renamed'; readonly name: string; readonly to: string };

class Folder extends Kept<Naming> {
  readonly #flushed: Map<string, Node>;

  constructor(names: Iterable<readonly [string, Node]> = []) {
    super();
    this.#flushed = new Map(names);
  }

  /** Flushing a file does not flush its name: fsync(2). So a folder can lose any change since its own last flush. */
  after(isLeft: () => boolean): ReadonlyMap<string, Node> {
    const names = new Map(this.#flushed);
    for (const change of this.changes) if (isLeft()) rename(names, change);
    return names;
  }

  protected override settle(change: Naming): void {
    rename(this.#flushed, change);
  }
}

function rename(names: Map<string, Node>, change: Naming): void {
  const node = change.kind === 'added' ? change.node : names.get(change.name);
  if (change.kind === 'removed') names.delete(change.name);
  else if (change.kind === 'added') names.set(change.name, change.node);
  else if (node !== undefined) {
    names.delete(change.name);
    names.set(change.to, node);
  }
}

/** A folder with its contents, and the numbers of its files. */
export interface Snapshot {
  readonly path: string;
  readonly inode: number;
  /** Only of a file. */
  readonly bytes?: Buffer;
  readonly entries: readonly Snapshot[];
}

export function takeSnapshot(path: string): Snapshot {
  const found = statSync(path);
  if (!found.isDirectory()) return { path, inode: found.ino, bytes: readFileSync(path), entries: [] };
  return { path, inode: found.ino, entries: readdirSync(path).map((name) => takeSnapshot(join(path, name))) };
}

/** The effect of a power cut on one disk. */
export interface PowerCut {
  /** For the next file with unflushed writes. */
  readonly lossOf: () => Loss;
  /** Whether the next unflushed change of a name is kept. */
  readonly isNameLeft: () => boolean;
  readonly chance: Chance;
}

/** The files of a folder on a disk: the durable parts, and those that a power cut may take. */
export class Disk {
  readonly #root: Node;
  /** By path, as the process sees them. */
  readonly #nodes = new Map<string, Node>();
  readonly #byInode = new Map<number, Node>();
  #order = 0;

  /** Starts with a folder that is completely durable. */
  constructor(snapshot: Snapshot) {
    this.#root = this.#take(snapshot);
  }

  apply(change: Change): void {
    this.#order += 1;
    switch (change.kind) {
      case 'opened':
        this.#open(change);
        break;
      case 'made folder':
        this.#add(change.path, new Folder());
        break;
      case 'removed':
        this.#nodes.delete(change.path);
        this.#folderOf(change.path).change(this.#order, { kind: 'removed', name: basename(change.path) });
        break;
      case 'renamed':
        this.#rename(change);
        break;
      case 'written':
      case 'cut':
        this.#file(change.inode).change(this.#order, change);
        break;
      case 'flushing':
        this.#node(change.inode).beginFlush(change.flush, this.#order);
        break;
      case 'flushed':
        this.#node(change.inode).endFlush(change.flush);
        break;
    }
  }

  /** Whether a file has unflushed contents. */
  isDirty(suffix: string): boolean {
    for (const [path, node] of this.#nodes) if (path.endsWith(suffix) && node.changes.length > 0) return true;
    return false;
  }

  /** Writes what is left after a power cut into a folder. */
  writeAfter(cut: PowerCut, target: string): void {
    const write = (node: Node, path: string) => {
      if (node instanceof File) return writeFileSync(path, node.after(cut.lossOf, cut.chance).view());
      mkdirSync(path, { recursive: true });
      for (const [name, inner] of node.after(cut.isNameLeft)) write(inner, join(path, name));
    };
    write(this.#root, target);
  }

  #take({ path, inode, bytes, entries }: Snapshot): Node {
    const node =
      bytes === undefined
        ? new Folder(entries.map((entry) => [basename(entry.path), this.#take(entry)]))
        : new File(bytes);
    this.#nodes.set(path, node);
    this.#byInode.set(inode, node);
    return node;
  }

  /** A new file may get the number of a removed one. */
  #open({ path, inode, isFolder }: Extract<Change, { kind: 'opened' }>): void {
    const node = this.#nodes.get(path) ?? this.#add(path, isFolder ? new Folder() : new File());
    this.#byInode.set(inode, node);
  }

  #add(path: string, node: Node): Node {
    this.#nodes.set(path, node);
    this.#folderOf(path).change(this.#order, { kind: 'added', name: basename(path), node });
    return node;
  }

  #rename({ path, to }: Extract<Change, { kind: 'renamed' }>): void {
    const node = this.#nodes.get(path);
    if (node === undefined || dirname(path) !== dirname(to))
      throw new Error(`renaming ${path} to ${to} is not modelled`);
    this.#nodes.delete(path);
    this.#nodes.set(to, node);
    this.#folderOf(path).change(this.#order, { kind: 'renamed', name: basename(path), to: basename(to) });
  }

  #folderOf(path: string): Folder {
    const folder = this.#nodes.get(dirname(path));
    if (folder instanceof Folder) return folder;
    throw new Error(`the journal does not say where ${path} is`);
  }

  #node(inode: number): Node {
    const node = this.#byInode.get(inode);
    if (node === undefined) throw new Error(`the journal does not say what file ${inode} is`);
    return node;
  }

  #file(inode: number): File {
    const node = this.#node(inode);
    if (node instanceof File) return node;
    throw new Error(`file ${inode} is a folder`);
  }
}
