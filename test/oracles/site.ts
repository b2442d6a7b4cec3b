import './installed.ts';

export { Eleventy } from '@11ty/eleventy';
export { renderMermaidSVG } from 'beautiful-mermaid';
