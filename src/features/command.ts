import type { CommandPart } from '../commands/part.ts';
import { evidenceCommand } from './evidence/command.ts';

/** What features add to the command line, in the order of its help. */
export const commandParts: readonly CommandPart[] = [evidenceCommand];
