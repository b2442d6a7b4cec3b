import {
  autocompletion,
  type Completion,
  type CompletionContext,
  type CompletionResult,
} from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { json } from '@codemirror/lang-json';
import {
  bracketMatching,
  ensureSyntaxTree,
  HighlightStyle,
  indentOnInput,
  syntaxHighlighting,
  syntaxTree,
} from '@codemirror/language';
import { type Diagnostic, forceLinting, linter, lintGutter } from '@codemirror/lint';
import { unifiedMergeView } from '@codemirror/merge';
import { Compartment, EditorState, StateEffect } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, type ViewUpdate } from '@codemirror/view';
import type { SyntaxNode } from '@lezer/common';
import { tags } from '@lezer/highlight';
import { type Around, choices, type Schema } from './schema-choices.ts';
import { strictJson } from './strict-json.ts';

/** A problem in a place of the manifest, by its path, such as `triggers.shop.inputs.webhookSlug`. */
export interface PlacedIssue {
  readonly path: string;
  readonly severity: 'error' | 'warning';
  readonly message: string;
}

export interface ManifestEditor {
  readonly text: () => string;
  setText(text: string): void;
  /** Marks the issues that the service found. */
  setIssues(issues: readonly PlacedIssue[]): void;
  /** Marks the lines that differ from another text; null shows only the text. */
  compareWith(original: string | null): void;
  goTo(path: string): void;
  destroy(): void;
}

interface EditorOptions {
  readonly parent: EditorView['dom'];
  readonly text: string;
  /** Completes names and values; undefined completes nothing. */
  readonly schema: Schema | undefined;
  readonly onChange: (text: string) => void;
}

/** An editor for one manifest. Only pages with an editor load this file: it is larger than the rest of the page. */
export function createManifestEditor({ parent, text, schema, onChange }: EditorOptions): ManifestEditor {
  // In a shadow root, the editor's styles are not inline styles, which the page's policy forbids.
  const root = parent.attachShadow({ mode: 'open' });
  let issues: readonly PlacedIssue[] = [];
  const comparison = new Compartment();
  const diagnose = (view: EditorView): Diagnostic[] => {
    const wrong = syntaxProblem(view);
    if (wrong.length > 0) return wrong;
    return issues.map(({ path, ...issue }) => ({ ...spanOf(view.state, path), ...issue }));
  };
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        highlightActiveLine(),
        json(),
        lintGutter(),
        linter(diagnose, { delay: 200, needsRefresh: hasNewIssues }),
        autocompletion({ override: schema === undefined ? [] : [completeFrom(schema)] }),
        // No Tab key: it has to lead out of the editor.
        keymap.of([...defaultKeymap, ...historyKeymap]),
        syntaxHighlighting(COLOURS),
        LOOK,
        comparison.of([]),
        EditorView.contentAttributes.of({ 'aria-label': 'Manifest' }),
        EditorView.updateListener.of((update) => update.docChanged && onChange(update.state.doc.toString())),
      ],
    }),
  });
  // A scrolling area must be reachable by keyboard.
  view.scrollDOM.tabIndex = 0;
  return {
    text: () => view.state.doc.toString(),
    setText: (insert) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert } }),
    setIssues(found) {
      issues = found;
      view.dispatch({ effects: newIssues.of(null) });
      forceLinting(view);
    },
    compareWith(original) {
      const shown = original === null ? [] : unifiedMergeView({ original, mergeControls: false, gutter: true });
      view.dispatch({ effects: comparison.reconfigure(shown) });
    },
    goTo(path) {
      const { from, to } = spanOf(view.state, path);
      view.dispatch({
        selection: { anchor: from, head: to },
        effects: EditorView.scrollIntoView(from, { y: 'center' }),
      });
      view.focus();
    },
    destroy: () => view.destroy(),
  };
}

/** The place where the text stops being JSON, from the browser's message (of Chromium or Firefox). */
function syntaxProblem({ state: { doc } }: EditorView): Diagnostic[] {
  let message = '';
  try {
    if (doc.length > 0) JSON.parse(strictJson(doc.toString()));
    return [];
  } catch (error) {
    message = error instanceof Error ? error.message : String(error);
  }
  const [, position] = /at position (\d+)/.exec(message) ?? [];
  const [, line, column] = /at line (\d+) column (\d+)/.exec(message) ?? [];
  const at = position ?? (line === undefined ? 0 : doc.line(Number(line)).from + Number(column) - 1);
  const from = Math.min(Number(at), doc.length);
  return [{ from, to: from, severity: 'error', message }];
}

const newIssues = StateEffect.define<null>();

function hasNewIssues({ transactions }: ViewUpdate): boolean {
  return transactions.some(({ effects }) => effects.some((effect) => effect.is(newIssues)));
}

const PATH_PART = /\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|([^.[\]]+)/g;

/** The position of the value at a path; if there is none, of the nearest value around it. */
function spanOf(state: EditorState, path: string): { from: number; to: number } {
  let node = syntaxTree(state).topNode.firstChild;
  for (const [, index, quoted, plain] of path.matchAll(PATH_PART)) {
    const next: SyntaxNode | null =
      index === undefined
        ? valueAt(state, node, quoted === undefined ? (plain ?? '') : String(JSON.parse(`"${quoted}"`)))
        : (items(node)[Number(index)] ?? null);
    if (next === null) break;
    node = next;
  }
  const property = node?.parent?.name === 'Property' ? node.parent.firstChild : null;
  // For an object or array only its name, not all of its lines.
  const shown = node !== null && property !== null && /Object|Array/.test(node.name) ? property : node;
  const from = shown?.from ?? 0;
  return { from, to: Math.min(shown?.to ?? 0, state.doc.lineAt(from).to) };
}

const properties = (object: SyntaxNode | null) => (object?.name === 'Object' ? object.getChildren('Property') : []);

function items(array: SyntaxNode | null): SyntaxNode[] {
  const found = [];
  for (let node = array?.firstChild ?? null; node !== null; node = node.nextSibling) {
    if (/^(Object|Array|String|Number|True|False|Null)$/.test(node.name)) found.push(node);
  }
  return array?.name === 'Array' ? found : [];
}

function keyOf(state: EditorState, property: SyntaxNode): string {
  const name = property.getChild('PropertyName');
  return name === null ? '' : unquoted(state.sliceDoc(name.from, name.to));
}

function unquoted(text: string): string {
  try {
    return String(JSON.parse(text));
  } catch {
    return text.replaceAll('"', '');
  }
}

function valueAt(state: EditorState, object: SyntaxNode | null, key: string): SyntaxNode | null {
  // The service accepts names in any case.
  const found = properties(object).find((property) => keyOf(state, property).toLowerCase() === key.toLowerCase());
  const value = found?.lastChild ?? null;
  return value === null || value.name === 'PropertyName' || value.type.isError ? null : value;
}

/** The objects and arrays around a node, outermost first. */
function aroundOf(state: EditorState, node: SyntaxNode): Around[] {
  const found: Around[] = [];
  for (let each: SyntaxNode | null = node; each !== null; each = each.parent) {
    if (each.name !== 'Object' && each.name !== 'Array') continue;
    const { parent } = each;
    const isItem = parent?.name === 'Array';
    const key = isItem ? 0 : parent?.name === 'Property' ? keyOf(state, parent) : null;
    const type = valueAt(state, each, 'type');
    found.unshift({ key, type: type === null ? undefined : unquoted(state.sliceDoc(type.from, type.to)) });
  }
  return found;
}

/** Syntax nodes that completion handles. */
const COMPLETED = /^(PropertyName|String|Object|Array|Property)$/;
/** Time limit for a long text; completion of the rest works a moment later. */
const MAX_PARSE_MS = 200;

/** A newly typed quote turns everything after it into a string: closed at the cursor, the text parses as intended. */
function withClosedQuote(state: EditorState, pos: number): EditorState {
  const line = state.doc.lineAt(pos);
  const before = line.text.slice(0, pos - line.from);
  const isOpen = before.replace(/\\./g, '').split('"').length % 2 === 0;
  const isClosed = /^[\w.-]*"/.test(line.text.slice(pos - line.from));
  return isOpen && !isClosed ? state.update({ changes: { from: pos, insert: '"' } }).state : state;
}

export function completeFrom(schema: Schema) {
  return ({ state: given, pos, explicit }: CompletionContext): CompletionResult | null => {
    const state = withClosedQuote(given, pos);
    const tree = ensureSyntaxTree(state, pos + 1, MAX_PARSE_MS) ?? syntaxTree(state);
    const found = tree.resolveInner(pos, -1);
    // Punctuation and invalid text count as part of the node around them.
    const node = COMPLETED.test(found.name) ? found : (found.parent ?? found);
    const around = aroundOf(state, node);
    const isInside = node.name === 'PropertyName' || node.name === 'String';
    if (!isInside && !explicit) return null;
    const expression = node.name === 'String' ? completeExpression(state, node, pos) : undefined;
    if (expression !== undefined) return expression;
    const from = isInside ? node.from : pos;
    const to = !isInside ? pos : state === given ? node.to : pos;
    const before = state.sliceDoc(0, from).trimEnd().at(-1);
    const property =
      node.name === 'Property' ? node : isInside && node.parent?.name === 'Property' ? node.parent : null;
    if (node.name === 'PropertyName' || (node.name === 'Object' && (before === '{' || before === ','))) {
      const known = new Set(
        properties(node.name === 'Object' ? node : (property?.parent ?? null)).map((one) => keyOf(state, one)),
      );
      const isNew = node.name !== 'PropertyName' || !/^\s*:/.test(state.sliceDoc(to, to + 20));
      const offered = choices.names(schema, around).filter(({ name }) => isInside || !known.has(name));
      return resultOf(
        { from, to },
        offered.map(({ name, description, schema: own }) => ({
          label: JSON.stringify(name),
          displayLabel: name,
          apply: `${JSON.stringify(name)}${isNew ? `: ${beginningOf(own)}` : ''}`,
          type: 'property',
          ...(description === undefined ? {} : { info: description }),
        })),
      );
    }
    if (node.name === 'Object') return null;
    const key = property === null ? 0 : keyOf(state, property);
    const values = choices.values(schema, around, key);
    return resultOf(
      { from, to },
      values.map((value) => ({ label: JSON.stringify(value), type: 'enum' })),
    );
  };
}

/** Names that expressions can read in every run; `expressions/context.ts` describes them. */
const READABLE = [
  'trigger.body',
  'trigger.headers',
  'trigger.key',
  'trigger.envelope',
  'trigger.deliveries',
  'trigger.scheduledFor',
  'run.id',
  'run.startedAt',
  'run.flow',
  'run.revision',
  'loop.item',
  'loop.index',
];

/** Completes the names in an expression; undefined if the cursor is not in one. */
function completeExpression(state: EditorState, { from }: SyntaxNode, pos: number): CompletionResult | undefined {
  const before = state.sliceDoc(from, pos);
  const open = before.lastIndexOf('${');
  if (open === -1 || before[open - 1] === '$' || before.includes('}', open)) return undefined;
  const [word] = /[\w.]*$/.exec(before) ?? [''];
  const steps = properties(valueAt(state, syntaxTree(state).topNode.firstChild, 'steps'));
  const ofSteps = steps.flatMap((step) => {
    const key = keyOf(state, step);
    const place = /^[A-Za-z_]\w*$/.test(key) ? `steps.${key}` : `steps['${key}']`;
    const read = ['output', 'status', 'error'].map((name) => `${place}.${name}`);
    const type = valueAt(state, step.lastChild, 'type');
    const waits = type !== null && unquoted(state.sliceDoc(type.from, type.to)) === 'WaitForSignal';
    return waits ? [...read, `${place.replace('steps', 'waits')}.url`] : read;
  });
  const options = [...READABLE, ...ofSteps].map((label) => ({ label, type: 'variable' }));
  return { from: pos - word.length, to: pos, options, validFor: /^[\w.]*$/ };
}

function resultOf(span: { from: number; to: number }, options: Completion[]): CompletionResult | null {
  return options.length === 0 ? null : { ...span, options, validFor: /^"?[\w.-]*"?$/ };
}

function beginningOf({ type }: Schema): string {
  if (type === 'object') return '{}';
  if (type === 'array') return '[]';
  return '';
}

const COLOURS = HighlightStyle.define([
  { tag: tags.propertyName, color: 'var(--accent)' },
  { tag: tags.string, color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--busy)' },
]);

const LOOK = EditorView.theme({
  '&': {
    height: '100%',
    border: '1px solid var(--line-strong)',
    borderRadius: 'var(--radius)',
    backgroundColor: 'var(--surface)',
    color: 'var(--text)',
    fontSize: '12px',
    overflow: 'hidden',
  },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '1px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '18px' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--raised)', color: 'var(--muted)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--accent-soft)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'var(--busy-soft)',
  },
  '.cm-tooltip': { backgroundColor: 'var(--surface)', border: '1px solid var(--line)', color: 'var(--text)' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent-fill)', color: '#fff' },
  '.cm-completionInfo': { maxWidth: '360px' },
  '.cm-deletedChunk': { backgroundColor: 'var(--bad-soft)' },
  '.cm-changedLine': { backgroundColor: 'var(--good-soft)' },
  '.cm-changedText': { background: 'none', fontWeight: '600' },
  '.cm-deletedChunk .cm-deletedText': { background: 'none', fontWeight: '600' },
});
