import { defineConfig } from 'sluice';
import { handlers } from './handlers.ts';

export default defineConfig({ handlers });
